// SPDX-License-Identifier: Apache-2.0
#include "cluster/cycle_plan.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "rebalance/rebalance.h"

namespace forestall::cluster {

namespace {

PlannedEviction planned(const rebalance::ClusterPod& pod, std::string_view profile,
                        std::string_view plugin, std::string_view reason) {
  return {{std::string(pod.pod_namespace), std::string(pod.name), std::string(pod.uid)},
          std::string(pod.node),
          std::string(profile),
          std::string(plugin),
          std::string(reason),
          "",
          pod.background_allowed};
}

rebalance::RequestEnd request_end(PlannedEnd end) {
  switch (end) {
    case PlannedEnd::evicted:
    case PlannedEnd::background:
    case PlannedEnd::unknown:
    case PlannedEnd::gone: return rebalance::RequestEnd::evicted;
    case PlannedEnd::refused_by_budget: return rebalance::RequestEnd::refused_by_budget;
    case PlannedEnd::refused:
    case PlannedEnd::no_room:
    case PlannedEnd::failed:
    case PlannedEnd::abandoned: break;
  }
  return rebalance::RequestEnd::not_evicted;
}

}  // namespace

CyclePlan::Made CyclePlan::make(RefusedPods& refused, MonotonicTime now) {
  if (made_++ == 0) refused.mark(snapshot_, now);
  Made made{
      .plan = rebalance::rebalance(policy_, snapshot_, history_), .evictions = {}, .refused = {}};
  std::set<std::size_t> pods;
  for (const rebalance::PodEviction& each : made.plan.evictions) {
    const rebalance::ClusterPod& pod = snapshot_.pods[each.pod];
    PlannedEviction eviction =
        planned(pod, each.profile.view(), each.plugin.view(), each.reason.view());
    if (!each.refused.empty()) {
      made.refused.emplace_back(std::move(eviction), std::string(each.refused.view()));
      continue;
    }
    if (pod.evicted_in_background) continue;
    // A plugin may evict a pod twice.
    if (ended_.contains(pod.uid) || !pods.insert(each.pod).second) continue;
    if (each.destination) eviction.destination = snapshot_.nodes[*each.destination].name;
    made.evictions.push_back(std::move(eviction));
  }
  if (made.plan.history) forget_gone(made.plan.history->moves);
  limited_.clear();
  for (rebalance::ProfileRun& profile : made.plan.profiles) {
    for (rebalance::PluginReport& each : profile.plugins) {
      limited_.push_back({profile.name, each.plugin, std::move(each.limited)});
    }
  }
  return made;
}

std::vector<CyclePlan::Limited> CyclePlan::limited() const {
  std::vector<Limited> all;
  for (const LimitedOf& of : limited_) {
    using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
    std::map<Key, std::size_t> known;  // by namespace, node and limit
    for (const rebalance::LimitedPod& each : of.pods) {
      const rebalance::ClusterPod& pod = snapshot_.pods[each.pod];
      const auto [found, is_first] =
          known.try_emplace({pod.pod_namespace, pod.node, each.limit}, all.size());
      if (is_first) {
        all.push_back({planned(pod, of.profile, of.plugin, ""), std::string(each.limit)});
      }
      ++all[found->second].count;
    }
  }
  return all;
}

// The moves of this plan. Earlier ones of a pod of the same name stay.
void CyclePlan::forget_gone(rebalance::MoveHistory& moves) const {
  std::erase_if(moves, [this](const rebalance::Move& each) {
    return each.time_ns == snapshot_.taken_ns && gone_.contains({each.pod_namespace, each.pod});
  });
}

void CyclePlan::gone(const std::string& uid, const std::string& problem) {
  const auto pod = std::ranges::find(snapshot_.pods, uid, &rebalance::ClusterPod::uid);
  if (pod != snapshot_.pods.end()) gone_.emplace(pod->pod_namespace, pod->name);
  ended(uid, policy_.corrections.empty() ? problem : "");
}

void CyclePlan::ended(const std::string& uid, const std::string& refusal) {
  ended_.insert(uid);
  if (refusal.empty()) return;
  const auto pod = std::ranges::find(snapshot_.pods, uid, &rebalance::ClusterPod::uid);
  if (pod == snapshot_.pods.end()) return;
  pod->refused = snapshot_.texts->keep(refusal);
  pod->refused_in_plan = true;
}

bool CyclePlan::remembers_waits() const {
  return policy_.corrections.has(rebalance::Correction::waiting_moves) &&
         rebalance::pacing_of(policy_).memory_seconds > 0;
}

void CyclePlan::requested(const PlannedEviction& eviction, PlannedEnd end) {
  if (!remembers_waits()) return;
  const auto pod = std::ranges::find(snapshot_.pods, eviction.pod.uid, &rebalance::ClusterPod::uid);
  if (pod == snapshot_.pods.end()) return;
  requested_.push_back({{.profile = eviction.profile,
                         .plugin = eviction.plugin,
                         .workload = std::string(rebalance::workload_of(*pod)),
                         .pod_namespace = eviction.pod.pod_namespace,
                         .pod = eviction.pod.name,
                         .node = eviction.node,
                         .limit = rebalance::EvictionLimit::budget,
                         .since_ns = snapshot_.taken_ns},
                        request_end(end)});
}

std::vector<rebalance::WaitingMove> CyclePlan::waits_after(
    std::vector<rebalance::WaitingMove> planned) const {
  if (!remembers_waits()) return planned;
  return rebalance::waits_after(std::move(planned), history_.waiting, requested_);
}

}  // namespace forestall::cluster
