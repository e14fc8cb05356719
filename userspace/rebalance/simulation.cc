// SPDX-License-Identifier: Apache-2.0
#include "rebalance/simulation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "rebalance/rebalance.h"
#include "rebalance/simulated_cluster.h"

namespace forestall::rebalance {
namespace {

constexpr std::int64_t kPointSeconds = 300;

class Simulation {
 public:
  Simulation(const SimulationOptions& options, std::string name, const Policy* policy)
      : options_(options), cluster_(options) {
    run_.name = std::move(name);
    if (policy == nullptr) return;
    policy_ = *policy;
    if (options.placeholders && !policy_->placeholder) policy_->placeholder.emplace();
  }

  SimulationRun run() {
    const auto end = static_cast<std::int64_t>(options_.hours) * kSecondsPerHour;
    const auto interval = static_cast<std::int64_t>(options_.interval_seconds);
    for (std::int64_t now = 0; now <= end; now += kStepSeconds) {
      const StepResult step = cluster_.advance(now);
      *now_.evictions += step.evictions;
      *now_.kills += step.kills;
      now_.seconds = now;
      now_.hot_nodes = count_hot();
      *run_.hot_node_minutes += static_cast<double>(*now_.hot_nodes);
      if (policy_ && now > 0 && now % interval == 0) apply_policy(now);
      if (now % kPointSeconds == 0) run_.points.push_back(now_);
    }
    return std::move(run_);
  }

 private:
  [[nodiscard]] std::uint64_t count_hot() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        cluster_.nodes(),
        [](const SimulatedNode& each) { return each.available_mib < kHotShare * kNodeMib; }));
  }

  void apply_policy(std::int64_t now) {
    const Snapshot snapshot = cluster_.snapshot(now);
    RebalancePlan plan = rebalance(*policy_, snapshot, history_);
    if (run_.error.empty()) run_.error = first_error(plan);
    for (const PodEviction& each : plan.evictions) {
      if (!each.refused.empty()) {
        ++run_.refused;
        continue;
      }
      const auto to = policy_->placeholder ? each.destination : std::nullopt;
      const std::int64_t before = cluster_.move(snapshot.pods[each.pod].name, to, now);
      ++now_.moves;
      if (now - before < kLoopSeconds) ++now_.loops;
    }
    if (count_hot() > now_.hot_nodes) ++*run_.plans_with_more_hot_nodes;
    if (plan.history) history_ = std::move(*plan.history);
  }

  const SimulationOptions& options_;
  std::optional<Policy> policy_;  // nothing: nothing is moved
  SimulatedCluster cluster_;
  PlanHistory history_;
  SimulationPoint now_;
  SimulationRun run_;
};

}  // namespace

std::string first_error(const RebalancePlan& plan) {
  for (const ProfileRun& profile : plan.profiles) {
    for (const PluginReport& each : profile.plugins) {
      if (!each.error.empty()) return profile.name + "/" + each.plugin + ": " + each.error;
    }
  }
  return "";
}

SimulationRun simulate(const SimulationOptions& options, std::string name, const Policy* policy) {
  return Simulation(options, std::move(name), policy).run();
}

}  // namespace forestall::rebalance
