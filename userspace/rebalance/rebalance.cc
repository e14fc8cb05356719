// SPDX-License-Identifier: Apache-2.0
#include "rebalance/rebalance.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
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
  Cycle(const Policy& policy, const Snapshot& snapshot, const PlanHistory& history,
        const CycleOptions& options)
      : policy_(policy),
        view_(snapshot, policy.corrections),
        nodes_(ready_nodes(view_, policy.node_selector)),
        memory_(pacing_of(policy), history.moves, view_),
        waiting_(history.waiting, view_),
        counts_(policy, view_, arbitrates() ? &waiting_ : nullptr),
        room_finder_(view_, &memory_),
        explain_{options.explain, options.fits_max} {
    if (!view_.corrects(Correction::room_first)) return;
    for (const Booking& each : memory_.bookings()) {
      if (each.request) view_.book(each.node, *each.request);
    }
  }

  RebalancePlan run() {
    run_all();
    if (remembers()) {
      plan_.history.emplace();
      plan_.history->moves = std::move(memory_).take();
      if (arbitrates()) plan_.history->waiting = std::move(waiting_).take();
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] bool remembers() const { return pacing_of(policy_).memory_seconds > 0; }
  [[nodiscard]] bool arbitrates() const {
    return remembers() && view_.corrects(Correction::waiting_moves);
  }

  void run_all() {
    plan_.corrections = policy_.corrections;
    for (const Profile& each : policy_.profiles) {
      plan_.profiles.push_back({each.name, {}});
      evictors_.push_back(std::make_unique<DefaultEvictor>(view_, each.evictor));
      pools_.push_back(pool_of(each));
    }
    if (nodes_.size() < kNodesMin) {
      plan_.skipped =
          "the cluster size is 0 or 1 meaning eviction causes service disruption or degradation";
      for (const Profile& each : policy_.profiles) keep_waiting(each);
      return;
    }
    if (arbitrates()) hold_seats();
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
    const Requester by{of.name, plugin.name};
    PluginReport run;
    run.plugin = plugin.name;
    run.point = point;
    PluginSession session(view_, policy_, *evictors_[profile], pools_[profile], counts_, memory_,
                          room_finder_, explain_, by, run);
    std::visit([&](const auto& args) { run_plugin(session, args); }, plugin.args);
    if (session.fits_omitted()) plan_.fits_omitted = true;
    plan_.evictions.insert(plan_.evictions.end(), run.evictions.begin(), run.evictions.end());
    for (const PodEviction& each : run.evictions) {
      // A plugin may evict a pod twice; it is removed once.
      if (each.refused.empty()) view_.remove(each.pod);
    }
    counts_.release_all(by);
    if (!run.error.empty()) waiting_.failed(by);
    plan_.profiles[profile].plugins.push_back(std::move(run));
  }

  [[nodiscard]] std::vector<NodeIndex> pool_of(const Profile& profile) const {
    std::vector<NodeIndex> pool = nodes_;
    if (profile.node_selector) {
      std::erase_if(pool, [&](NodeIndex each) {
        return !matches(*profile.node_selector, view_.node(each).labels);
      });
    }
    return pool;
  }

  void keep_waiting(const Profile& profile) {
    for (const auto* const list : {&profile.deschedule, &profile.balance}) {
      for (const ProfilePlugin& each : *list) waiting_.keep({profile.name, each.name});
    }
  }

  // The index of the profile that has the plugin.
  [[nodiscard]] std::optional<std::size_t> find_plugin(const WaitingMove& move) const {
    for (std::size_t i = 0; i < policy_.profiles.size(); ++i) {
      const Profile& profile = policy_.profiles[i];
      const auto has = [&](const std::vector<ProfilePlugin>& list) {
        return std::ranges::find(list, move.plugin, &ProfilePlugin::name) != list.end();
      };
      if (profile.name == move.profile && (has(profile.deschedule) || has(profile.balance))) {
        return i;
      }
    }
    return std::nullopt;
  }

  // A move without a pod that could leave now, or without a plugin, gets no seat.
  void hold_seats() {
    const std::vector<const WaitingMove*> due = waiting_.due();
    std::map<std::pair<std::string_view, std::string_view>, std::vector<PodIndex>> pods;
    for (const WaitingMove* const each : due) pods[{each->pod_namespace, each->workload}];
    for (PodIndex i = 0; !due.empty() && i < view_.snapshot().pods.size(); ++i) {
      const auto found = pods.find({view_.pod(i).pod_namespace, workload_of(view_.pod(i))});
      if (found != pods.end()) found->second.push_back(i);
    }
    for (const WaitingMove* const each : due) {
      const auto profile = find_plugin(*each);
      if (!profile) continue;
      const auto& of_workload = pods.at({each->pod_namespace, each->workload});
      const auto pod = std::ranges::find_if(of_workload, [&](PodIndex candidate) {
        return (each->node.empty() || view_.pod(candidate).node == each->node) &&
               is_processed(candidate, *profile) && counts_.can_hold(*each, candidate) &&
               may_leave(candidate, *evictors_[*profile]);
      });
      if (pod == of_workload.end()) continue;
      counts_.hold(*each, *pod);
      report_seat(*each, *pod);
    }
  }

  [[nodiscard]] bool is_processed(PodIndex pod, std::size_t profile) const {
    const auto node = view_.origin_of(pod);
    return node && std::ranges::binary_search(pools_[profile], *node);
  }

  [[nodiscard]] bool may_leave(PodIndex pod, const DefaultEvictor& evictor) {
    const PodSummary& summary = view_.summary(pod);
    const ClusterPod& of = view_.pod(pod);
    if (of.uid.empty() || (!of.refused.empty() && !of.refused_in_plan)) return false;
    if (summary.evicted_in_background || !evictor.filter(pod) ||
        !evictor.pre_eviction_filter(pod) || !memory_.refusal(pod).empty()) {
      return false;
    }
    if (!view_.corrects(Correction::room_first) || !comes_back(summary)) return true;
    const Rooms anywhere{.nodes = evictor.fit_nodes(), .outlives_plugin = true};
    return room_finder_.find(pod, anywhere).has_value();
  }

  void report_seat(const WaitingMove& move, PodIndex pod) {
    const Nanos waited = (Nanos{view_.now_ns()} - move.since_ns) / kNanosPerUnit;
    plan_.held_seats.push_back(
        {pod, move.profile, move.plugin, move.limit, static_cast<std::int64_t>(waited)});
  }

  const Policy& policy_;
  ClusterView view_;
  std::vector<NodeIndex> nodes_;
  MoveMemory memory_;
  WaitingMoves waiting_;
  EvictionCounts counts_;
  RoomFinder room_finder_;
  std::vector<std::unique_ptr<DefaultEvictor>> evictors_;  // by profile
  std::vector<std::vector<NodeIndex>> pools_;              // nodes to process, by profile
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

RebalancePlan rebalance(const Policy& policy, const Snapshot& snapshot, const PlanHistory& history,
                        const CycleOptions& options) {
  return Cycle(policy, snapshot, history, options).run();
}

RebalancePlan rebalance(const Policy& policy, const Snapshot& snapshot,
                        const CycleOptions& options) {
  return rebalance(policy, snapshot, PlanHistory(), options);
}

}  // namespace forestall::rebalance
