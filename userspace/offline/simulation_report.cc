// SPDX-License-Identifier: Apache-2.0
#include "offline/simulation_report.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "tables/table.h"

namespace forestall::cli {
namespace {

using rebalance::SimulationPoint;
using rebalance::SimulationRun;

// Against the first run, in which nothing is moved. Negative: more than there.
std::optional<std::int64_t> avoided(std::span<const SimulationRun> runs, const SimulationRun& run,
                                    std::optional<std::uint64_t> SimulationPoint::*count) {
  return rebalance::avoided(runs.front().points.back(), run.points.back(), count);
}

template <typename Number>
void write_count(text::JsonWriter& out, const char* name, const std::optional<Number>& count) {
  out.key(name);
  count ? out.value(*count) : out.null();
}

void write_point(text::JsonWriter& out, const SimulationPoint& point, bool of_trace) {
  out.begin_object();
  out.member("seconds", point.seconds);
  write_count(out, "hotNodes", point.hot_nodes);
  if (of_trace) {
    out.member("unknownNodes", point.unknown_nodes);
    out.member("comparedNodes", point.compared_nodes);
    write_count(out, "comparedHotNodes", point.compared_hot_nodes);
  }
  out.member("moves", point.moves);
  out.member("loops", point.loops);
  write_count(out, "evictions", point.evictions);
  write_count(out, "kills", point.kills);
  if (of_trace) out.member("waiting", point.waiting);
  out.end_object();
}

template <typename Number>
std::string count_text(const std::optional<Number>& count) {
  return count ? std::to_string(*count) : "unknown";
}

// In hundredths.
double rounded_minutes(double minutes) {
  constexpr double kHundredths = 100;
  return std::round(minutes * kHundredths) / kHundredths;
}

// Known hot, and with the unknown nodes.
void write_minutes(text::JsonWriter& out, const SimulationRun& run) {
  std::optional<double> most = run.hot_node_minutes;
  if (most) *most += run.unknown_node_minutes;
  write_count(out, "hotNodeMinutesMost", most);
  out.member("unknownNodeMinutes", run.unknown_node_minutes);
  out.member("comparedNodeMinutes", run.compared_node_minutes);
  write_count(out, "comparedHotNodeMinutes", run.compared_hot_node_minutes);
}

}  // namespace

std::string hot_minutes_text(const SimulationRun& run) {
  if (!run.hot_node_minutes) return "unknown";
  const double least = *run.hot_node_minutes;
  const double most = least + run.unknown_node_minutes;
  if (run.unknown_node_minutes <= 0) return fmt::format("{}", rounded_minutes(least));
  return fmt::format("{} to {}", rounded_minutes(least), rounded_minutes(most));
}

std::string compared_minutes_text(const SimulationRun& run) {
  if (!run.compared_hot_node_minutes) return "unknown";
  return fmt::format("{} of {}", rounded_minutes(*run.compared_hot_node_minutes),
                     rounded_minutes(run.compared_node_minutes));
}

void write_runs(text::JsonWriter& out, std::span<const SimulationRun> runs, bool of_trace) {
  out.key("runs");
  out.begin_list();
  for (const SimulationRun& run : runs) {
    out.begin_object();
    out.member("policy", run.name);
    write_count(out, "hotNodeMinutes", run.hot_node_minutes);
    if (of_trace) write_minutes(out, run);
    write_count(out, "evictionsAvoided", avoided(runs, run, &SimulationPoint::evictions));
    write_count(out, "killsAvoided", avoided(runs, run, &SimulationPoint::kills));
    out.member("refused", run.refused);
    write_count(out, "plansWithMoreHotNodes", run.plans_with_more_hot_nodes);
    if (!run.error.empty()) out.member("error", run.error);
    out.key("points");
    out.begin_list();
    for (const SimulationPoint& each : run.points) write_point(out, each, of_trace);
    out.end_list();
    out.end_object();
  }
  out.end_list();
}

void print_runs(std::span<const SimulationRun> runs, bool of_trace) {
  std::vector<std::string> header{"policy", "hot node minutes"};
  if (of_trace) header.emplace_back("where all runs measure");
  header.insert(header.end(),
                {"evictions", "avoided", "OOM kills", "avoided", "moves", "loops", "refused"});
  if (of_trace) header.emplace_back("waiting");
  tables::Table table(header);
  for (const SimulationRun& run : runs) {
    const SimulationPoint& last = run.points.back();
    std::vector<std::string> row{run.name, hot_minutes_text(run)};
    if (of_trace) row.push_back(compared_minutes_text(run));
    row.insert(
        row.end(),
        {count_text(last.evictions), count_text(avoided(runs, run, &SimulationPoint::evictions)),
         count_text(last.kills), count_text(avoided(runs, run, &SimulationPoint::kills)),
         std::to_string(last.moves), std::to_string(last.loops), std::to_string(run.refused)});
    if (of_trace) row.push_back(std::to_string(last.waiting));
    table.add(std::move(row));
  }
  table.print();
}

}  // namespace forestall::cli
