// SPDX-License-Identifier: Apache-2.0
#include "cli/score_text.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "policy/badness.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

std::vector<tables::ScoredRow> rows_of(const ScoreView& view) {
  const Pages total = view.scene.domain.total_pages;
  const tables::CgroupPaths paths(view.scene);
  std::vector<tables::ScoredRow> rows;
  rows.reserve(view.shown.size());
  for (const std::size_t index : view.shown) {
    const ProcessSample& process = view.scene.processes[index];
    const auto points = policy::badness(process, total);
    rows.push_back({&process, points, policy::oom_score(points, total), paths.of(process.cgroup)});
  }
  return rows;
}

std::string header(const ScoreView& view, const tables::ProcessShow& show) {
  const auto amount = [](const std::optional<Bytes>& bytes) {
    return bytes ? tables::human(*bytes) : std::string("an unknown amount");
  };
  return fmt::format("An oom_score_adj of 1000 is worth {}: {} of RAM and {} of swap.\n{}\n",
                     tables::pages_text(view.scene.domain.total_pages, show.page),
                     amount(view.memory), amount(view.swap), tables::reading_text(view.reading));
}

// Why the kernel does not choose the process, or chooses it first.
std::string remarks(const ProcessSample& process, bool choosable) {
  std::string text;
  if (!choosable) {
    const Unkillable reason =
        process.unkillable == Unkillable::none ? Unkillable::adjusted : process.unkillable;
    text += fmt::format("  It is not eligible, because {}.\n", tables::unkillable_text(reason));
  }
  if (process.oom_victim) {
    text += process.oom_victim_reaped
                ? "  An earlier OOM kill chose it and reaped its memory; it has not exited yet.\n"
                : "  An earlier OOM kill chose it; no other process is chosen until it exits.\n";
  }
  if (process.oom_origin) text += "  It requested to be chosen first (swapoff, KSM).\n";
  if (process.dying) text += "  It is exiting.\n";
  return text;
}

// One process with all parts of its score.
std::string details(const tables::ScoredRow& row, Pages total_pages,
                    const tables::ProcessShow& show) {
  return fmt::format("\n{}  cgroup         {}\n{}", tables::parts_table({row}, total_pages, show),
                     row.cgroup.empty() ? "unknown" : printable(row.cgroup),
                     remarks(*row.process, row.points.has_value()));
}

}  // namespace

std::string score_text(const ScoreView& view, const tables::ProcessShow& show) {
  const std::vector<tables::ScoredRow> rows = rows_of(view);
  std::string text = header(view, show);
  if (view.by_pid) {
    for (const tables::ScoredRow& row : rows)
      text += details(row, view.scene.domain.total_pages, show);
    return text;
  }
  text += fmt::format("{} process{}, of which the kernel could choose {}", view.processes,
                      view.processes == 1 ? "" : "es", view.choosable);
  if (rows.size() < view.choosable) text += fmt::format("; the first {}", rows.size());
  text += rows.empty() ? ".\n" : ":\n\n" + tables::process_table(rows, show, false);
  return text;
}

v1::ScoreReport to_report(const ScoreView& view, const tables::ProcessShow& show) {
  v1::ScoreReport report;
  const Pages total = view.scene.domain.total_pages;
  report.set_total_pages(total);
  report.set_page_bytes(show.page.count);
  if (view.memory) report.set_memory_bytes(view.memory->count);
  if (view.swap) report.set_swap_bytes(view.swap->count);
  *report.mutable_reading() = to_report(view.reading);
  report.set_process_count(view.processes);
  for (const tables::ScoredRow& row : rows_of(view))
    *report.add_processes() = to_report(row, total);
  return report;
}

}  // namespace forestall::cli
