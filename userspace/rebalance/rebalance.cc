// SPDX-License-Identifier: Apache-2.0
#include "rebalance/rebalance.h"

#include <memory>
#include <utility>
#include <vector>

#include "rebalance/node_fit.h"
#include "rebalance/plugins.h"
#include "rebalance/session.h"

namespace forestall::rebalance {
namespace {

// A single node has no other one to move pods to.
constexpr std::size_t kNodesMin = 2;

// One cycle over all profiles.
class Cycle {
 public:
  Cycle(const Policy& policy, const Snapshot& snapshot, const MoveHistory& history,
        const CycleOptions& options)
      : policy_(policy),
        view_(snapshot, policy.corrections),
        nodes_(ready_nodes(view_, policy.node_selector)),
        counts_(policy, view_),
        memory_(pacing_of(policy), history, view_),
        room_finder_(view_, &memory_),
        explain_{options.explain, options.fits_max} {
    if (!view_.corrects(Correction::room_first)) return;
    for (const Booking& each : memory_.bookings()) {
      if (each.request) view_.book(each.node, *each.request);
    }
  }

  RebalancePlan run() {
    run_all();
    if (pacing_of(policy_).memory_seconds > 0) plan_.history = std::move(memory_).take();
    return std::move(plan_);
  }

 private:
  void run_all() {
    plan_.corrections = policy_.corrections;
    for (const Profile& each : policy_.profiles) {
      plan_.profiles.push_back({each.name, {}});
      evictors_.push_back(std::make_unique<DefaultEvictor>(view_, each.evictor));
    }
    if (nodes_.size() < kNodesMin) {
      plan_.skipped =
          "the cluster size is 0 or 1 meaning eviction causes service disruption or degradation";
      return;
    }
    for (std::size_t i = 0; i < policy_.profiles.size(); ++i) {
      for (const ProfilePlugin& each : policy_.profiles[i].deschedule) {
        run_one(i, each, ExtensionPoint::deschedule);
      }
    }
    for (std::size_t i = 0; i < policy_.profiles.size(); ++i) {
      for (const ProfilePlugin& each : policy_.profiles[i].balance) {
        run_one(i, each, ExtensionPoint::balance);
      }
    }
  }

  void run_one(std::size_t profile, const ProfilePlugin& plugin, ExtensionPoint point) {
    const Profile& of = policy_.profiles[profile];
    PluginReport run;
    run.plugin = plugin.name;
    run.point = point;
    PluginSession session(view_, policy_, *evictors_[profile], nodes_, counts_, memory_,
                          room_finder_, explain_, of.name, run);
    std::visit([&](const auto& args) { run_plugin(session, args); }, plugin.args);
    if (session.fits_omitted()) plan_.fits_omitted = true;
    plan_.evictions.insert(plan_.evictions.end(), run.evictions.begin(), run.evictions.end());
    for (const PodEviction& each : run.evictions) {
      // A plugin may evict a pod twice; it is removed once.
      if (each.refused.empty()) view_.remove(each.pod);
    }
    plan_.profiles[profile].plugins.push_back(std::move(run));
  }

  const Policy& policy_;
  ClusterView view_;
  std::vector<NodeIndex> nodes_;
  EvictionCounts counts_;
  MoveMemory memory_;
  RoomFinder room_finder_;
  std::vector<std::unique_ptr<DefaultEvictor>> evictors_;  // by profile
  ExplainOptions explain_;
  RebalancePlan plan_;
};

}  // namespace

Pacing pacing_of(const Policy& policy) {
  if (policy.pacing) return *policy.pacing;
  Pacing pacing;
  if (!policy.corrections.empty()) pacing.memory_seconds = kMemorySeconds;
  return pacing;
}

std::string_view to_string(PodProtection each) {
  switch (each) {
    case PodProtection::pods_with_local_storage: return "PodsWithLocalStorage";
    case PodProtection::system_critical_pods: return "SystemCriticalPods";
    case PodProtection::failed_bare_pods: return "FailedBarePods";
    case PodProtection::daemon_set_pods: return "DaemonSetPods";
    case PodProtection::pods_with_pvc: return "PodsWithPVC";
    case PodProtection::pods_without_pdb: return "PodsWithoutPDB";
    case PodProtection::pods_with_resource_claims: return "PodsWithResourceClaims";
  }
  return "";
}

std::optional<PodProtection> parse_protection(std::string_view word) {
  for (const PodProtection each :
       {PodProtection::pods_with_local_storage, PodProtection::system_critical_pods,
        PodProtection::failed_bare_pods, PodProtection::daemon_set_pods,
        PodProtection::pods_with_pvc, PodProtection::pods_without_pdb,
        PodProtection::pods_with_resource_claims}) {
    if (word == to_string(each)) return each;
  }
  return std::nullopt;
}

std::string_view to_string(ExtensionPoint point) {
  return point == ExtensionPoint::deschedule ? "deschedule" : "balance";
}

std::string_view to_string(NodeClass each) {
  switch (each) {
    case NodeClass::underutilized: return "underutilized";
    case NodeClass::overutilized: return "overutilized";
    case NodeClass::appropriate: return "appropriate";
    case NodeClass::source: return "source";
    case NodeClass::destination: return "destination";
    case NodeClass::excluded: return "excluded";
  }
  return "";
}

RebalancePlan rebalance(const Policy& policy, const Snapshot& snapshot, const MoveHistory& history,
                        const CycleOptions& options) {
  return Cycle(policy, snapshot, history, options).run();
}

RebalancePlan rebalance(const Policy& policy, const Snapshot& snapshot,
                        const CycleOptions& options) {
  return rebalance(policy, snapshot, MoveHistory(), options);
}

}  // namespace forestall::rebalance
