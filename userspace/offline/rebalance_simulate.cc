// SPDX-License-Identifier: Apache-2.0
// `forestall rebalance simulate`: policies on a synthetic cluster, side by side.
#include <fmt/format.h>

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/pod_input.h"
#include "descheduler/descheduler_policy.h"
#include "offline/commands.h"
#include "offline/output_file.h"
#include "offline/rebalance_input.h"
#include "offline/simulation_page.h"
#include "rebalance/simulation.h"
#include "tables/table.h"
#include "text/json_writer.h"

namespace forestall::cli {
namespace {

using rebalance::SimulationPoint;
using rebalance::SimulationRun;

struct NamedPolicy {
  std::string name;
  std::string text;
};

constexpr const char* kSimulate = "rebalance simulate";

constexpr const char* kUtilization =
    "metricsProviders: [{source: KubernetesMetrics}]\n"
    "profiles: [{name: p, pluginConfig: [{name: LowNodeUtilization, args: {thresholds: {memory: "
    "60}, targetThresholds: {memory: 80}, metricsUtilization: {source: KubernetesMetrics}}}], "
    "plugins: {balance: {enabled: [LowNodeUtilization]}}}]\n";

constexpr const char* kPressure =
    "compat: fixed\n"
    "profiles: [{name: p, pluginConfig: [{name: NodePressure, args: {secondsToCrossing: 3600}}], "
    "plugins: {balance: {enabled: [NodePressure]}}}]\n";

// Without policies of the user.
std::vector<NamedPolicy> built_in() {
  return {{"LowNodeUtilization, upstream", kUtilization},
          {"LowNodeUtilization, fixed", "compat: fixed\n" + std::string(kUtilization)},
          {"NodePressure", kPressure}};
}

// Against the first run, in which nothing is moved. Negative: more than there.
std::optional<std::int64_t> avoided(const std::vector<SimulationRun>& runs,
                                    const SimulationRun& run,
                                    std::optional<std::uint64_t> SimulationPoint::*count) {
  return rebalance::avoided(runs.front().points.back(), run.points.back(), count);
}

template <typename Number>
void write_count(text::JsonWriter& out, const char* name, const std::optional<Number>& count) {
  out.key(name);
  count ? out.value(*count) : out.null();
}

void write_point(text::JsonWriter& out, const SimulationPoint& point) {
  out.begin_object();
  out.member("seconds", point.seconds);
  write_count(out, "hotNodes", point.hot_nodes);
  out.member("moves", point.moves);
  out.member("loops", point.loops);
  write_count(out, "evictions", point.evictions);
  write_count(out, "kills", point.kills);
  out.end_object();
}

std::string simulation_json(const rebalance::SimulationOptions& options,
                            const std::vector<SimulationRun>& runs) {
  text::JsonWriter out;
  out.begin_object();
  out.member("seed", options.seed);
  out.member("nodes", options.nodes);
  out.member("podsPerNode", options.pods_per_node);
  out.member("hours", options.hours);
  out.member("intervalSeconds", options.interval_seconds);
  out.member("placeholders", options.placeholders);
  out.key("runs");
  out.begin_list();
  for (const SimulationRun& run : runs) {
    out.begin_object();
    out.member("policy", run.name);
    write_count(out, "hotNodeMinutes", run.hot_node_minutes);
    write_count(out, "evictionsAvoided", avoided(runs, run, &SimulationPoint::evictions));
    write_count(out, "killsAvoided", avoided(runs, run, &SimulationPoint::kills));
    out.member("refused", run.refused);
    out.member("plansWithMoreHotNodes", run.plans_with_more_hot_nodes);
    if (!run.error.empty()) out.member("error", run.error);
    out.key("points");
    out.begin_list();
    for (const SimulationPoint& each : run.points) write_point(out, each);
    out.end_list();
    out.end_object();
  }
  out.end_list();
  out.end_object();
  return std::move(out).take();
}

template <typename Number>
std::string count_text(const std::optional<Number>& count) {
  return count ? std::to_string(*count) : "unknown";
}

void print_simulation(const std::vector<SimulationRun>& runs) {
  tables::Table table({"policy", "hot node minutes", "evictions", "avoided", "OOM kills", "avoided",
                       "moves", "loops", "refused"});
  for (const SimulationRun& run : runs) {
    const SimulationPoint& last = run.points.back();
    table.add({run.name, count_text(run.hot_node_minutes), count_text(last.evictions),
               count_text(avoided(runs, run, &SimulationPoint::evictions)), count_text(last.kills),
               count_text(avoided(runs, run, &SimulationPoint::kills)), std::to_string(last.moves),
               std::to_string(last.loops), std::to_string(run.refused)});
  }
  table.print();
}

rebalance::SimulationOptions model_of(const SimulateOptions& simulate) {
  return {.seed = simulate.seed,
          .nodes = simulate.nodes,
          .pods_per_node = simulate.pods_per_node,
          .hours = simulate.hours,
          .interval_seconds = simulate.interval_seconds,
          .placeholders = simulate.placeholders};
}

// The given policies, or the built-in ones. A file that cannot be read is in `findings`.
std::vector<NamedPolicy> policies_of(const SimulateOptions& simulate, text::Findings& findings) {
  if (simulate.policies.empty()) return built_in();
  std::vector<NamedPolicy> policies;
  for (const std::string& path : simulate.policies) {
    auto text = read_input(path);
    if (!text) {
      findings.errors.push_back({{path, std::nullopt}, text.error().text()});
    } else {
      policies.push_back({path, std::move(*text)});
    }
  }
  return policies;
}

}  // namespace

int run_simulation(const Options& options, const SimulateOptions& simulate) {
  const bool json = options.output == OutputFormat::json;
  const std::string& page = simulate.page;
  // Checked before the simulation, which takes time. write_file() checks again.
  if (!page.empty() && !simulate.force && ::access(page.c_str(), F_OK) == 0) {
    return fail(kSimulate, error(page + " exists; --force overwrites it"), kExitUsage);
  }
  text::Findings findings;
  const std::vector<NamedPolicy> policies = policies_of(simulate, findings);
  std::vector<rebalance::Policy> parsed;
  for (const NamedPolicy& each : policies) {
    auto policy = descheduler::parse_descheduler_policy(each.name, each.text, nullptr, findings);
    if (policy) parsed.push_back(std::move(policy->policy));
  }
  if (!findings.errors.empty()) return report_errors(findings, json);
  const rebalance::SimulationOptions model = model_of(simulate);
  std::vector<SimulationRun> runs{rebalance::simulate(model, "none", nullptr)};
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    const auto& run = runs.emplace_back(rebalance::simulate(model, policies[i].name, &parsed[i]));
    if (run.error.empty()) continue;
    fmt::print(stderr, "{}: {}\n", printable(run.name), printable(run.error));
  }
  if (!page.empty()) {
    const auto written = write_file(page, simulate.force, simulation_page(subject_of(model), runs));
    if (!written) return fail(kSimulate, written.error(), kExitFailed);
  }
  if (json) {
    fmt::print("{}", simulation_json(model, runs));
  } else {
    print_simulation(runs);
  }
  return kExitOk;
}

}  // namespace forestall::cli
