// SPDX-License-Identifier: Apache-2.0
#include "top/once_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "tables/table.h"
#include "top/draw_parts.h"
#include "top/rows.h"

namespace forestall::top {
namespace {

std::string head(const internal::TopReport& report) {
  std::string text = fmt::format("{}, Linux {}; ", report.node(), report.kernel());
  if (report.has_agent()) {
    text += fmt::format("agent {}, pid {}{}\n", report.agent().version(), report.agent().pid(),
                        report.agent().config().dry_run() ? ", dry run" : "");
  } else {
    text += fmt::format("no agent ({}): observing only\n", printable(report.agent_problem()));
  }
  for (const v1::ConditionStatus& each : report.agent().conditions()) {
    if (each.status()) text += fmt::format("condition: {}\n", each.type());
  }
  const v1::NodeSample& node = report.signals().observation().node();
  if (node.has_capacity_bytes() && node.has_usage_bytes() && node.has_inactive_file_bytes()) {
    const auto used = std::max<std::int64_t>(node.usage_bytes() - node.inactive_file_bytes(), 0);
    text +=
        fmt::format("memory: {} of {} used, {} available\n", brief_bytes(used),
                    brief_bytes(node.capacity_bytes()), brief_bytes(node.capacity_bytes() - used));
  }
  for (const internal::PressureShare& each : report.pressure()) {
    text += fmt::format("stalled for {}: some {:.1f}%", each.resource(), each.some() * 100);
    if (each.has_full()) text += fmt::format(", full {:.1f}%", each.full() * 100);
    text += "\n";
  }
  return text;
}

std::string thresholds(const Frame& frame) {
  if (frame.report.signals().signals_size() == 0) return "\nno threshold could be computed\n";
  tables::Table table({"threshold", "kind", "subject", "available", "limit", "state"});
  for (const v1::Evidence* each : thresholds_of(frame.report)) {
    table.add({each->threshold().signal(), kind_of(each->threshold()), printable(each->subject()),
               amount_of(*each, each->available()), amount_of(*each, each->limit()),
               state_text(frame, *each)});
  }
  return "\n" + table.text();
}

std::string workloads(const Frame& frame) {
  const internal::TopReport& report = frame.report;
  if (report.workloads_size() == 0) {
    return "\nno workloads: no pod was found, and no cgroup matches a workload rule\n";
  }
  std::vector<Column> columns;
  std::vector<std::string> row;
  const bool points = report.ranking() == "kernel";
  for (const ColumnShape& each : column_shapes()) {
    if (each.column == Column::points && !points) continue;
    columns.push_back(each.column);
    row.emplace_back(each.heading);
  }
  tables::Table table(row);
  for (int i = 0; i < report.workloads_size(); ++i) {
    row.clear();
    for (const Column each : columns) {
      row.push_back(printable(cell_text(report, i, each, frame.history)));
    }
    table.add(row);
  }
  std::string text = fmt::format("\nby {} order\n{}", report.ranking(), table.text());
  if (!report.has_next_victim()) return text + "no workload may be evicted\n";
  const auto next = static_cast<int>(report.next_victim());
  return text +
         fmt::format("next victim: {}: {}\n",
                     printable(report.workloads(next).candidate().sample().workload().name()),
                     printable(explanation(report, next)));
}

}  // namespace

std::string once_text(const internal::TopReport& report, const History& history) {
  const View view;
  const Frame frame{report, history, view, ascii_glyphs()};
  std::string text = head(report) + thresholds(frame) + workloads(frame);
  const auto acts = acts_of(report);
  if (!acts.empty()) text += "\ndecisions, newest last (UTC)\n";
  for (const v1::StatusDecision* each : acts) {
    text += fmt::format("  {} {}\n", clock_text(frame, each->wall_time().seconds()),
                        printable(decision_text(*each)));
  }
  return text;
}

}  // namespace forestall::top
