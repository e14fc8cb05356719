// SPDX-License-Identifier: Apache-2.0
// PodLifeTime, and RemoveFailedPods, which is the same for pods that have failed.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

template <typename List, typename Value>
bool contains(const List& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Whole seconds; nothing: the time is in the future.
std::optional<std::uint64_t> seconds_since(std::int64_t now_ns, std::int64_t then_ns) {
  if (then_ns > now_ns) return std::nullopt;
  return static_cast<std::uint64_t>(now_ns - then_ns) / kNanosPerSecond;
}

bool any_container(const ClusterPod& pod, bool with_init, bool with_ephemeral, auto accept) {
  const auto any = [&](const std::vector<ContainerState>& list) {
    return std::any_of(list.begin(), list.end(), accept);
  };
  return any(pod.containers) || (with_init && any(pod.init_containers)) ||
         (with_ephemeral && any(pod.ephemeral_containers));
}

bool in_wanted_state(const PodLifeTimeArgs& args, const ClusterPod& pod) {
  if (args.states.empty() || contains(args.states, pod.phase_text) ||
      contains(args.states, pod.reason)) {
    return true;
  }
  return any_container(
      pod, args.init_containers, args.ephemeral_containers, [&](const ContainerState& each) {
        return (each.waiting || each.terminated) && contains(args.states, each.reason);
      });
}

bool has_wanted_owner(const PodLifeTimeArgs& args, const ClusterPod& pod) {
  const auto any_of = [&](const std::set<std::string, std::less<>>& kinds) {
    return std::any_of(pod.owners.begin(), pod.owners.end(),
                       [&](const PodOwner& each) { return kinds.contains(each.kind); });
  };
  if (!args.owner_kinds.include.empty()) return any_of(args.owner_kinds.include);
  return !any_of(args.owner_kinds.exclude);
}

bool fulfils(const ConditionFilter& filter, const PodCondition& condition, std::int64_t now_ns) {
  if (!filter.type.empty() && filter.type != condition.type) return false;
  if (!filter.status.empty() && filter.status != condition.status) return false;
  if (!filter.reason.empty() && filter.reason != condition.reason) return false;
  if (!filter.min_seconds) return true;
  if (!condition.transition_ns) return false;
  const auto age = seconds_since(now_ns, *condition.transition_ns);
  return age && *age >= *filter.min_seconds;
}

bool has_wanted_condition(const PodLifeTimeArgs& args, const ClusterPod& pod, std::int64_t now) {
  if (args.conditions.empty()) return true;
  return std::any_of(
      args.conditions.begin(), args.conditions.end(), [&](const ConditionFilter& filter) {
        return std::any_of(pod.conditions.begin(), pod.conditions.end(),
                           [&](const PodCondition& each) { return fulfils(filter, each, now); });
      });
}

bool has_wanted_exit_code(const PodLifeTimeArgs& args, const ClusterPod& pod) {
  if (args.exit_codes.empty()) return true;
  return any_container(pod, args.init_containers, false, [&](const ContainerState& each) {
    return each.terminated && contains(args.exit_codes, each.exit_code);
  });
}

// A pod without a creation time is as old as can be.
bool is_old(const PodLifeTimeArgs& args, const ClusterPod& pod, std::int64_t now_ns) {
  if (!args.max_seconds) return true;
  const auto age = seconds_since(now_ns, pod.created_ns);
  return age && *age > *args.max_seconds;
}

bool is_wanted(const PodLifeTimeArgs& args, const ClusterPod& pod, std::int64_t now_ns) {
  if (args.failed_only && pod.phase != PodPhase::failed) return false;
  return in_scope(args.scope, pod) && is_old(args, pod, now_ns) && in_wanted_state(args, pod) &&
         has_wanted_owner(args, pod) && has_wanted_condition(args, pod, now_ns) &&
         has_wanted_exit_code(args, pod);
}

std::string reason_of(const PodLifeTimeArgs& args, const ClusterPod& pod, std::int64_t now_ns) {
  std::string text = args.failed_only ? "the pod has failed" : "the pod matches";
  const auto age = seconds_since(now_ns, pod.created_ns);
  if (!args.max_seconds || !age) return text;
  return text + ": " + std::to_string(*age) + " s old, the limit is " +
         std::to_string(*args.max_seconds) + " s";
}

// Each pod is read once: they are far apart in memory.
std::vector<PodIndex> oldest_first(const ClusterView& view, std::span<const NodeIndex> nodes) {
  std::vector<std::pair<std::int64_t, PodIndex>> by_age;
  for (const NodeIndex node : nodes) {
    for (const PodIndex each : view.pods_on(node)) {
      by_age.emplace_back(view.pod(each).created_ns, each);
    }
  }
  std::ranges::sort(by_age);
  std::vector<PodIndex> pods;
  pods.reserve(by_age.size());
  for (const auto& [created, pod] : by_age) pods.push_back(pod);
  return pods;
}

}  // namespace

void run_plugin(PluginSession& session, const PodLifeTimeArgs& args) {
  const ClusterView& view = session.view();
  std::vector<PodIndex> pods = oldest_first(view, session.nodes());
  for (const PodIndex each : pods) session.consider(each);
  std::erase_if(pods, [&](PodIndex each) {
    return !is_wanted(args, view.pod(each), view.now_ns()) || !session.evictor().filter(each) ||
           !session.evictor().pre_eviction_filter(each);
  });
  session.run().evictions.reserve(pods.size());
  SharedText reason;
  std::optional<std::int64_t> created_ns;  // of the pod before, which mostly has the same
  for (const PodIndex each : pods) {
    const ClusterPod& pod = view.pod(each);
    if (created_ns != pod.created_ns) reason = reason_of(args, pod, view.now_ns());
    created_ns = pod.created_ns;
    if (session.evict(each, reason) == EvictResult::total_limit) return;
  }
}

}  // namespace forestall::rebalance
