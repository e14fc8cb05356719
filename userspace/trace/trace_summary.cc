// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <iterator>

#include "base/printable.h"
#include "tables/process_text.h"
#include "tables/table.h"
#include "text/utf8.h"
#include "trace/trace_question.h"
#include "trace/trace_text.h"

namespace forestall::trace {
namespace {

// Counts between two readings. The maximum is that of the whole trace: it cannot be split by
// window.
abi_trace_sum difference(const abi_trace_sum& now, const abi_trace_sum& before) {
  abi_trace_sum sum = now;
  sum.count -= before.count;
  sum.ns -= before.ns;
  sum.scanned -= before.scanned;
  sum.taken -= before.taken;
  sum.reclaimed -= before.reclaimed;
  for (std::size_t i = 0; i < ABI_TRACE_BUCKETS; ++i) sum.buckets[i] -= before.buckets[i];
  return sum;
}

// 2^i microseconds.
std::string bound(std::size_t i) {
  if (i < 10) return fmt::format("{}", 1U << i);
  if (i < 20) return fmt::format("{}K", 1U << (i - 10));
  return fmt::format("{}M", 1U << (i - 20));
}

constexpr std::size_t kBarWidth = 52;

std::string place_of(std::uint64_t id, const std::string& path) {
  if (!path.empty()) return printable(path);
  return id == 0 ? "node" : fmt::format("cgroup:{}", id);
}

void append_pressures(const v1::SummaryEvent& summary, std::string& out) {
  if (summary.pressures_size() == 0) return;
  tables::Table table({"some", "full", "cgroup"});
  for (const v1::PressureSum& each : summary.pressures()) {
    const auto share = [&](std::int64_t ns) {
      const auto window =
          static_cast<double>(std::max<std::int64_t>(each.pressure().window_ns(), 1));
      return fmt::format("{:.1f} %", 100.0 * static_cast<double>(ns) / window);
    };
    table.add({share(each.pressure().some_ns()), share(each.pressure().full_ns()),
               place_of(each.cgroup_id(), each.cgroup())});
  }
  out += table.text();
  if (summary.pressures_left_out() > 0) {
    fmt::format_to(std::back_inserter(out), "  and {} more\n", summary.pressures_left_out());
  }
}

}  // namespace

v1::SummaryEvent TraceSummary::since_last(const std::vector<kernel::TraceSum>& sums,
                                          const std::vector<sources::PressureReading>& readings,
                                          Duration window, MonotonicTime now) {
  v1::SummaryEvent summary;
  summary.set_window_ns(window.count());
  std::vector<v1::SpanSum> all;
  for (const kernel::TraceSum& each : sums) {
    const auto before = before_.try_emplace({each.cgroup.inode, each.kind}).first;
    const abi_trace_sum sum = difference(each.sum, std::exchange(before->second, each.sum));
    if (each.last) before_.erase(before);
    if (sum.count == 0) continue;
    v1::SpanSum& out = all.emplace_back();
    out.set_kind(span_kind_of(each.kind));
    out.set_cgroup_id(each.cgroup.inode);
    out.set_cgroup(text::to_utf8(names_.name(each.cgroup, now)));
    if (const std::string pod = pod_of(out.cgroup()); !pod.empty()) out.set_pod_uid(pod);
    out.set_count(sum.count);
    out.set_length_ns(static_cast<std::int64_t>(sum.ns));
    out.set_longest_ns(static_cast<std::int64_t>(sum.longest_ns));
    out.set_scanned_pages(events_.scanned(sum.scanned, sum.taken));
    out.set_reclaimed_pages(sum.reclaimed);
    for (const std::uint32_t bucket : sum.buckets) out.add_buckets(bucket);
  }
  std::ranges::sort(all, std::greater(), &v1::SpanSum::length_ns);
  for (std::size_t i = 0; i < std::min(all.size(), top_); ++i) *summary.add_sums() = all[i];
  summary.set_sums_left_out(all.size() - static_cast<std::size_t>(summary.sums_size()));

  std::vector<v1::PressureSum> pressures;
  for (const sources::PressureReading& reading : readings) {
    const auto pressure = pressure_of(reading);
    if (!pressure) continue;
    v1::PressureSum& out = pressures.emplace_back();
    if (reading.cgroup != CgroupId{}) out.set_cgroup_id(reading.cgroup.inode);
    out.set_cgroup(text::to_utf8(reading.path));
    if (const std::string pod = pod_of(reading.path); !pod.empty()) out.set_pod_uid(pod);
    *out.mutable_pressure() = *pressure;
  }
  std::ranges::stable_sort(pressures, std::greater(),
                           [](const v1::PressureSum& each) { return each.pressure().some_ns(); });
  for (std::size_t i = 0; i < std::min(pressures.size(), top_); ++i) {
    *summary.add_pressures() = pressures[i];
  }
  summary.set_pressures_left_out(pressures.size() -
                                 static_cast<std::size_t>(summary.pressures_size()));
  return summary;
}

void append_histogram(const std::vector<std::uint64_t>& buckets, std::string& out) {
  const auto any = [](std::uint64_t count) { return count > 0; };
  const auto first = std::ranges::find_if(buckets, any);
  if (first == buckets.end()) return;
  const auto last = std::find_if(buckets.rbegin(), buckets.rend(), any).base();
  const std::uint64_t most = *std::max_element(first, last);
  for (auto each = first; each != last; ++each) {
    const auto i = static_cast<std::size_t>(each - buckets.begin());
    std::string range = i == 0 ? "[0, 1)" : fmt::format("[{}, {})", bound(i - 1), bound(i));
    if (i + 1 == buckets.size()) range = fmt::format("[{}, ...)", bound(i - 1));
    const auto width = static_cast<std::size_t>(static_cast<double>(*each) /
                                                static_cast<double>(most) * kBarWidth);
    fmt::format_to(std::back_inserter(out), "{:<16} {:>8} |{:<52}|\n", range, *each,
                   std::string(width, '@'));
  }
}

void append_summary(const v1::Event& event, bool color, std::string& out) {
  const v1::SummaryEvent& summary = event.summary();
  const std::time_t second = event.wall_time().seconds();
  std::tm local{};
  ::localtime_r(&second, &local);
  std::array<char, 16> time{};
  std::strftime(time.data(), time.size(), "%H:%M:%S", &local);
  fmt::format_to(std::back_inserter(out), "{}{}, {} {}\n", color ? "\x1b[1m" : "", time.data(),
                 short_length(summary.window_ns()), color ? "\x1b[0m" : "");
  if (summary.sums_size() == 0 && summary.pressures_size() == 0) {
    out += "  no pressure\n";
    return;
  }
  tables::Table table({"kind", "count", "time", "longest", "scanned", "freed", "cgroup"});
  // By kind, over all cgroups shown.
  std::map<v1::SpanKind, std::vector<std::uint64_t>> histograms;
  for (const v1::SpanSum& each : summary.sums()) {
    table.add({std::string(span_word(each.kind())), fmt::format("{}", each.count()),
               short_length(each.length_ns()), short_length(each.longest_ns()),
               fmt::format("{}", each.scanned_pages()), fmt::format("{}", each.reclaimed_pages()),
               place_of(each.cgroup_id(), each.cgroup())});
    auto& histogram = histograms[each.kind()];
    histogram.resize(static_cast<std::size_t>(each.buckets_size()));
    for (int i = 0; i < each.buckets_size(); ++i) {
      histogram[static_cast<std::size_t>(i)] += each.buckets(i);
    }
  }
  if (summary.sums_size() > 0) out += table.text();
  if (summary.sums_left_out() > 0) {
    fmt::format_to(std::back_inserter(out), "  and {} more\n", summary.sums_left_out());
  }
  append_pressures(summary, out);
  for (const auto& [kind, buckets] : histograms) {
    fmt::format_to(std::back_inserter(out), "\n@{} us:\n", span_word(kind));
    append_histogram(buckets, out);
  }
  out += '\n';
}

}  // namespace forestall::trace
