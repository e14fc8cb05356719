// SPDX-License-Identifier: Apache-2.0
// `forestall rebalance`: the plan of a DeschedulerPolicy for the state of a cluster, from files.
#include "rebalance/rebalance.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "offline/commands.h"
#include "offline/rebalance_input.h"
#include "offline/rebalance_json.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

void print_run(const std::string& profile, const rebalance::PluginReport& run) {
  fmt::print("{}/{}: ", printable(profile), run.plugin);
  if (!run.error.empty()) {
    fmt::print("failed: {}\n", printable(run.error));
    return;
  }
  const auto refused = std::count_if(run.evictions.begin(), run.evictions.end(),
                                     [](const auto& each) { return !each.refused.empty(); });
  fmt::print("{} evictions", static_cast<std::ptrdiff_t>(run.evictions.size()) - refused);
  if (refused > 0) fmt::print(", {} refused", refused);
  if (!run.outcome.empty()) fmt::print("; {}", run.outcome);
  for (const std::string& each : run.limits) fmt::print("; {}", each);
  fmt::print("\n");
}

void print_plan(const rebalance::RebalancePlan& plan, const rebalance::Snapshot& snapshot) {
  if (!plan.skipped.empty()) fmt::print("no plugin ran: {}\n", plan.skipped);
  for (const rebalance::ProfileRun& profile : plan.profiles) {
    for (const rebalance::PluginReport& run : profile.plugins) print_run(profile.name, run);
  }
  if (plan.evictions.empty()) return;
  fmt::print("\n");
  const bool booked = plan.corrections.has(rebalance::Correction::room_first);
  std::vector<std::string> header{"pod", "node"};
  if (booked) header.emplace_back("to");
  header.insert(header.end(), {"plugin", "reason"});
  tables::Table table(header);
  for (const rebalance::PodEviction& each : plan.evictions) {
    const rebalance::ClusterPod& pod = snapshot.pods[each.pod];
    std::vector<std::string> row{fmt::format("{}/{}", pod.pod_namespace, pod.name),
                                 std::string(pod.node)};
    if (booked) {
      row.emplace_back(each.destination ? snapshot.nodes[*each.destination].name : "-");
    }
    row.emplace_back(each.plugin.view());
    row.push_back(each.refused.empty() ? std::string(each.reason.view())
                                       : fmt::format("refused: {}", each.refused.view()));
    table.add(std::move(row));
  }
  table.print();
}

}  // namespace

int run_rebalance(const Options& options, const RebalanceOptions& rebalance_options) {
  const bool json = options.output == OutputFormat::json;
  text::Findings findings;
  const auto input = load_rebalance_input(rebalance_options, findings);
  if (!input) return report_errors(findings, json);
  rebalance::Policy policy = input->policy.policy;
  if (rebalance_options.compat == "fixed") policy.corrections = rebalance::Corrections::all();
  if (rebalance_options.compat == "upstream") policy.corrections = rebalance::Corrections::none();
  rebalance::CycleOptions plan_options;
  plan_options.explain = json;
  const rebalance::RebalancePlan plan =
      rebalance::rebalance(policy, input->snapshot, input->history, plan_options);
  if (json) {
    write_plan_json(plan, input->snapshot, [](std::string_view piece) { fmt::print("{}", piece); });
  } else {
    print_plan(plan, input->snapshot);
  }
  return kExitOk;
}

int run_check_policy(const Options& options, const RebalanceOptions& rebalance_options) {
  const bool json = options.output == OutputFormat::json;
  text::Findings findings;
  const auto input = load_rebalance_input(rebalance_options, findings);
  if (!input) return report_errors(findings, json);
  if (!json) fmt::print("{}: valid\n\n", printable(rebalance_options.policy));
  fmt::print("{}", input->policy.effective);
  return kExitOk;
}

}  // namespace forestall::cli
