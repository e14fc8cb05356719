// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_events.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "messages/convert.h"
#include "sources/pod_paths.h"
#include "text/utf8.h"
#include "trace/trace_question.h"

namespace forestall::trace {
namespace {

std::string comm_text(const char (&comm)[ABI_COMM_LENGTH]) {
  return text::to_utf8({comm, strnlen(comm, sizeof(comm))});
}

std::int64_t read_clock(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

void WallClock::adjust() {
  // Two clocks cannot be read at once: the reading with the shortest gap is the most exact.
  std::int64_t least = INT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t before = read_clock(CLOCK_MONOTONIC);
    const std::int64_t wall = read_clock(CLOCK_REALTIME);
    const std::int64_t between = read_clock(CLOCK_MONOTONIC) - before;
    if (between >= least) continue;
    least = between;
    offset_ns_ = wall - before - between / 2;
  }
}

void WallClock::stamp(std::int64_t at_ns, v1::Event& event) const {
  const std::int64_t wall = at_ns + offset_ns_;
  event.set_at_ns(at_ns);
  event.mutable_wall_time()->set_seconds(wall / 1'000'000'000);
  event.mutable_wall_time()->set_nanos(static_cast<std::int32_t>(wall % 1'000'000'000));
}

std::string pod_of(std::string_view path) {
  // Skips parsing of paths that are not of pods.
  if (path.find("kubepods") == std::string_view::npos) return {};
  const auto pod = sources::parse_pod_path(path);
  return pod ? pod->uid : std::string();
}

void TraceEvents::stamp(v1::Event& event) const {
  clock_.stamp(event.at_ns(), event);
  if (const std::string pod = pod_of(event.cgroup()); !pod.empty()) event.set_pod_uid(pod);
}

void TraceEvents::place(CgroupId cgroup, std::int64_t at_ns, MonotonicTime now, v1::Event& event) {
  event.set_at_ns(at_ns);
  if (cgroup != CgroupId{}) {
    event.set_cgroup_id(cgroup.inode);
    event.set_cgroup(text::to_utf8(names_.name(cgroup, now)));
  }
  stamp(event);
}

void TraceEvents::fill_span(const abi_trace_event& record, MonotonicTime now) {
  const auto kind = static_cast<abi_trace_kind>(record.kind);
  v1::SpanEvent& span = *event_.mutable_span();
  span.set_kind(span_kind_of(kind));
  span.set_begins((record.flags & ABI_TRACE_BEGIN) != 0);
  span.set_length_ns(static_cast<std::int64_t>(record.length_ns));
  span.set_thread_id(record.pid);
  span.set_pid(record.tgid);
  span.set_name(comm_text(record.comm));
  if (kind == ABI_TRACE_kswapd) span.set_numa_node(record.value);
  if (span.begins()) return;
  const bool reclaim = kind == ABI_TRACE_memcg_reclaim || kind == ABI_TRACE_direct_reclaim ||
                       kind == ABI_TRACE_kswapd;
  if (!reclaim) return;
  span.set_scanned_pages(scanned(record.scanned, record.taken));
  span.set_reclaimed_pages(record.reclaimed);
  if (kind != ABI_TRACE_memcg_reclaim || record.subject == 0) return;
  span.set_subject_id(record.subject);
  span.set_subject(text::to_utf8(names_.name({record.subject}, now)));
}

void TraceEvents::fill_kill(const abi_trace_oom_kill& record) {
  v1::OomKillEvent& event = *event_.mutable_oom_kill()->mutable_event();
  event.set_at_ns(static_cast<std::int64_t>(record.event.at_ns));
  event.mutable_victim()->set_pid(record.event.tgid);
  event.set_name(comm_text(record.event.comm));
  event.set_uid(record.uid);
  event.set_oom_score_adj(record.oom_score_adj);
  if (record.event.cgroup != 0) event.set_cgroup_id(record.event.cgroup);
  event.set_path(event_.cgroup());
  if (record.anon_pages >= 0) {
    v1::ProcessMemory& memory = *event.mutable_memory();
    memory.set_file_pages(record.file_pages);
    memory.set_anon_pages(record.anon_pages);
    memory.set_shmem_pages(record.shmem_pages);
    memory.set_swap_pages(record.swap_pages);
  }
  event.mutable_killer()->set_pid(record.killer_tgid);
  event.set_killer_name(comm_text(record.killer_comm));
}

const v1::Event* TraceEvents::of(const abi_trace_event& record, MonotonicTime now) {
  const CgroupId cgroup{record.cgroup};
  event_.Clear();
  switch (static_cast<abi_trace_kind>(record.kind)) {
    case ABI_TRACE_path: {
      // The rest of the record follows its head (bpf/abi/trace.h).
      const auto& path = reinterpret_cast<const abi_trace_path&>(record);
      names_.put(cgroup, {path.path, strnlen(path.path, sizeof(path.path))});
      event_.mutable_cgroup_change();
      break;
    }
    case ABI_TRACE_removed:
      names_.remove(cgroup);
      event_.mutable_cgroup_change()->set_removed(true);
      break;
    default: break;
  }
  place(cgroup, static_cast<std::int64_t>(record.at_ns), now, event_);
  if (record.kind < ABI_TRACE_SPANS) {
    fill_span(record, now);
  } else if (record.kind == ABI_TRACE_oom_kill) {
    fill_kill(reinterpret_cast<const abi_trace_oom_kill&>(record));
  }
  return event_.what_case() == v1::Event::WHAT_NOT_SET ? nullptr : &event_;
}

const v1::Event& TraceEvents::of(const OomKillEvent& kill) {
  event_.Clear();
  OomKill reported;
  reported.event = kill;
  *event_.mutable_oom_kill()->mutable_event() = messages::to_proto(reported).event();
  event_.set_at_ns(to_ns(kill.at));
  if (kill.cgroup != CgroupId{}) event_.set_cgroup_id(kill.cgroup.inode);
  event_.set_cgroup(text::to_utf8(kill.path));
  stamp(event_);
  return event_;
}

void UsageLines::read(const sources::PressureReading& reading, const Visit& visit) {
  if (!reading.usage || !reading.limit || reading.limit->count <= 0) return;
  const auto percent = static_cast<int>(reading.usage->count /
                                        (std::max<std::int64_t>(reading.limit->count, 100) / 100));
  const auto reported = above_.find(reading.cgroup.inode);
  std::size_t above = reported == above_.end() ? 0 : reported->second;
  const auto cross = [&](int line, bool rises) {
    v1::UsageEvent event;
    event.set_usage_bytes(reading.usage->count);
    event.set_limit_bytes(reading.limit->count);
    event.set_percent(line);
    event.set_rises(rises);
    if (reported != above_.end()) visit(event);
  };
  while (above < kLines.size() && percent >= kLines[above]) cross(kLines[above++], true);
  while (above > 0 && percent < kLines[above - 1] - kSlack) cross(kLines[--above], false);
  above_[reading.cgroup.inode] = above;
}

void UsageLines::keep(const std::vector<sources::PressureReading>& readings) {
  std::map<std::uint64_t, std::size_t> kept;
  for (const sources::PressureReading& each : readings) {
    kept.insert(above_.extract(each.cgroup.inode));
  }
  above_ = std::move(kept);
}

std::optional<v1::PressureEvent> pressure_of(const sources::PressureReading& reading) {
  if (!reading.some || *reading.some == Duration::zero()) return std::nullopt;
  v1::PressureEvent event;
  event.set_window_ns(reading.window.count());
  event.set_some_ns(reading.some->count());
  event.set_full_ns(reading.full.value_or(Duration::zero()).count());
  return event;
}

std::optional<v1::ReclaimCountEvent> reclaim_count_of(const sources::PressureReading& reading) {
  const bool none = reading.scanned.value_or(0) == 0 && reading.reclaimed.value_or(0) == 0 &&
                    reading.stalls.value_or(0) == 0;
  if (none) return std::nullopt;
  v1::ReclaimCountEvent event;
  event.set_window_ns(reading.window.count());
  event.set_scanned_pages(reading.scanned.value_or(0));
  event.set_reclaimed_pages(reading.reclaimed.value_or(0));
  if (reading.direct_scanned) event.set_direct_scanned_pages(*reading.direct_scanned);
  if (reading.stalls) event.set_stalls(*reading.stalls);
  return event;
}

bool multi_generational_lru() {
  // A bit mask such as "0x0007". Kernels without the feature have no such file.
  const char* path = "/sys/kernel/mm/lru_gen/enabled";
  std::string buffer;
  const auto file = kernel::HeldFile::open(AT_FDCWD, path, path);
  if (!file) return false;
  const auto text = file->read(buffer);
  if (!text) return false;
  const std::string_view mask = trim(*text);
  return !mask.empty() && ((mask.back() - '0') & 1) != 0;
}

}  // namespace forestall::trace
