// SPDX-License-Identifier: Apache-2.0
#include "tables/process_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "messages/convert.h"
#include "policy/badness.h"
#include "tables/table.h"
#include "text/utf8.h"

namespace forestall::tables {
namespace {

// A path cut to fewer columns is not recognizable.
constexpr std::size_t kCgroupColumns = 12;

Bytes bytes_of(Pages pages, Bytes page) {
  return {pages * page.count};
}

std::string points_text(std::optional<Pages> points) {
  if (!points) return "none";
  if (are_pages(*points)) return fmt::format("{}", *points);
  return *points > 0 ? "first" : "none";
}

std::vector<std::string> table_cells(const ScoredRow& row, const ProcessShow& show) {
  const ProcessSample& process = *row.process;
  const ProcessMemory& memory = process.memory;
  const auto part = [&](Pages pages) { return brief(bytes_of(pages, show.page)); };
  std::vector<std::string> cells{fmt::format("{}", process.id.pid), printable(process.name())};
  if (row.oom_score) cells.push_back(fmt::format("{}", *row.oom_score));
  cells.push_back(points_text(row.points));
  for (const Pages pages :
       {memory.file, memory.anon, memory.shmem, memory.swap, memory.page_tables}) {
    cells.push_back(part(pages));
  }
  cells.push_back(fmt::format("{}", process.oom_score_adj));
  return cells;
}

std::size_t widest_line(std::string_view text) {
  std::size_t widest = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    widest = std::max(widest, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return widest;
}

// Keeps the end of `path`, which identifies a cgroup best.
std::string cut_left(std::string path, std::size_t columns) {
  if (path.size() <= columns) return path;
  return "..." + path.substr(path.size() - (columns - 3));
}

Table table_of(const std::vector<std::string>& headings,
               const std::vector<std::vector<std::string>>& rows) {
  Table table(headings);
  for (const auto& row : rows) table.add(row);
  return table;
}

void add_part(Table& table, const std::string& name, const std::vector<ScoredRow>& rows,
              const ProcessShow& show, Pages (*part)(const ProcessMemory&)) {
  std::vector<std::string> cells{name};
  for (const ScoredRow& row : rows) {
    cells.push_back(pages_text(part(row.process->memory), show.page));
  }
  table.add(std::move(cells));
}

}  // namespace

std::string who(const ProcessSample& process) {
  return fmt::format("{} (pid {})", printable(process.name()), process.id.pid);
}

std::string pages_text(Pages pages, Bytes page) {
  return fmt::format("{} page{} ({})", pages, pages == 1 ? "" : "s", human(bytes_of(pages, page)));
}

std::string brief(Bytes bytes) {
  constexpr std::array<char, 6> kUnits{'K', 'M', 'G', 'T', 'P', 'E'};
  if (std::abs(bytes.count) < 1024) return fmt::format("{}", bytes.count);
  double amount = static_cast<double>(bytes.count) / 1024;
  std::size_t unit = 0;
  // 999.5 rounds to four digits, and 1.0M is easier to read than 1023K.
  for (; std::abs(amount) >= 999.5 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  const int digits = std::abs(amount) < 9.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", amount, digits, kUnits[unit]);
}

Pages adjustment(const ProcessSample& process, Pages total_pages) {
  // The policy's formula for a process that has only its adjustment.
  ProcessSample bare;
  bare.oom_score_adj = process.oom_score_adj;
  return policy::badness(bare, total_pages).value_or(0);
}

std::string process_table(const std::vector<ScoredRow>& rows, const ProcessShow& show,
                          bool numbered) {
  std::vector<std::string> headings{"pid", "name"};
  if (!rows.empty() && rows.front().oom_score) headings.emplace_back("score");
  for (const char* name : {"points", "file", "anon", "shmem", "swap", "tables", "adj"}) {
    headings.emplace_back(name);
  }
  if (numbered) headings.insert(headings.begin(), "order");
  std::vector<std::vector<std::string>> cells;
  for (const ScoredRow& row : rows) {
    cells.push_back(table_cells(row, show));
    if (numbered) cells.back().insert(cells.back().begin(), fmt::format("{}", cells.size()));
  }
  std::size_t room = std::string::npos;
  if (show.columns > 0) {
    const std::size_t taken = widest_line(table_of(headings, cells).text()) + 2;
    room = std::max(kCgroupColumns, show.columns - std::min(show.columns, taken));
  }
  headings.emplace_back("cgroup");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string path = rows[i].cgroup.empty() ? "unknown" : printable(rows[i].cgroup);
    cells[i].push_back(cut_left(path, room));
  }
  return table_of(headings, cells).text();
}

std::string parts_table(const std::vector<ScoredRow>& rows, Pages total_pages,
                        const ProcessShow& show) {
  std::vector<std::string> headings{""};
  for (const ScoredRow& row : rows) headings.push_back(who(*row.process));
  Table table(std::move(headings));
  const auto part = [&](const char* name, Pages (*of)(const ProcessMemory&)) {
    add_part(table, name, rows, show, of);
  };
  part("file", [](const ProcessMemory& memory) { return memory.file; });
  part("anon", [](const ProcessMemory& memory) { return memory.anon; });
  part("shmem", [](const ProcessMemory& memory) { return memory.shmem; });
  part("swap", [](const ProcessMemory& memory) { return memory.swap; });
  part("page tables", [](const ProcessMemory& memory) { return memory.page_tables; });
  std::vector<std::string> adjusted{"oom_score_adj"};
  std::vector<std::string> points{"points"};
  for (const ScoredRow& row : rows) {
    const ProcessSample& process = *row.process;
    adjusted.push_back(process.oom_score_adj == kOomScoreAdjMin
                           ? fmt::format("{}: never chosen", kOomScoreAdjMin)
                           : fmt::format("{}: {}", process.oom_score_adj,
                                         pages_text(adjustment(process, total_pages), show.page)));
    points.push_back(row.points && are_pages(*row.points) ? pages_text(*row.points, show.page)
                                                          : points_text(row.points));
  }
  table.add(std::move(adjusted));
  table.add(std::move(points));
  if (!rows.empty() && rows.front().oom_score) {
    std::vector<std::string> scores{"oom_score"};
    for (const ScoredRow& row : rows)
      scores.push_back(fmt::format("{}", row.oom_score.value_or(0)));
    table.add(std::move(scores));
  }
  return table.text();
}

std::string_view unkillable_text(Unkillable reason) {
  switch (reason) {
    case Unkillable::none: return "";
    case Unkillable::init: return "it is pid 1";
    case Unkillable::kernel_thread: return "it is a thread of the kernel";
    case Unkillable::no_memory: return "it has no address space any more";
    case Unkillable::adjusted: return "its oom_score_adj is -1000";
    case Unkillable::reaped: return "its memory is already reaped, or is shared with pid 1";
    case Unkillable::in_vfork: return "it still uses its parent's memory (vfork)";
  }
  return "";
}

std::string reading_text(const ProcessReading& reading) {
  if (!reading.calibration) {
    const std::string why =
        reading.bpf_failure.empty() ? "" : fmt::format(", because BPF {}", reading.bpf_failure);
    // A kernel that scores by approximate counters omits per-CPU deltas; /proc includes them.
    return fmt::format(
        "Processes were read from /proc{}; the kernel's figures may be some pages per CPU off.",
        why);
  }
  const kernel::Calibration& found = *reading.calibration;
  return fmt::format("Processes were read by BPF; the kernel scores by {} ({}).",
                     found.counting == kernel::RssCounting::summed ? "sums over all CPUs"
                                                                   : "its approximate counters",
                     found.proven ? "proven" : "not proven: " + found.evidence);
}

CgroupPaths::CgroupPaths(const OomScene& scene) {
  for (const OomCgroup& each : scene.cgroups) paths_.emplace(each.id, &each.path);
}

std::string CgroupPaths::of(CgroupId cgroup) const {
  const auto found = paths_.find(cgroup);
  return found == paths_.end() ? "" : *found->second;
}

v1::ProcessReading to_report(const ProcessReading& reading) {
  v1::ProcessReading out;
  out.set_source(reading.source);
  out.set_bpf_failure(text::to_utf8(reading.bpf_failure));
  if (reading.calibration) {
    out.set_counting(std::string(to_string(reading.calibration->counting)));
    out.set_counting_proven(reading.calibration->proven);
    out.set_counting_evidence(text::to_utf8(reading.calibration->evidence));
  }
  return out;
}

v1::ScoredProcess to_report(const ScoredRow& row, Pages total_pages) {
  v1::ScoredProcess out;
  *out.mutable_process() = messages::to_proto(*row.process);
  out.set_cgroup(text::to_utf8(row.cgroup));
  if (row.points) out.set_points(*row.points);
  out.set_adjustment_pages(adjustment(*row.process, total_pages));
  if (row.oom_score) out.set_oom_score(*row.oom_score);
  return out;
}

}  // namespace forestall::tables
