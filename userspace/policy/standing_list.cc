// SPDX-License-Identifier: Apache-2.0
#include "policy/standing_list.h"

#include <algorithm>

#include "model/until_oom.h"
#include "model/workload_class.h"
#include "policy/damage_limit.h"
#include "policy/exclusion.h"
#include "policy/guard_list.h"
#include "policy/rank.h"
#include "policy/saturating.h"
#include "policy/signals.h"

namespace forestall::policy {
namespace {

Bytes half_of(Bytes amount) {
  return {amount.count / 2};
}

bool has_swap(const NodeSample& node) {
  return !node.swap_total || *node.swap_total > Bytes{0};
}

std::optional<Bytes> lower(std::optional<Bytes> a, std::optional<Bytes> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

StandingSubject of_threshold(const Threshold& threshold, const Subject& subject,
                             const SignalState& signal, const NodeSample& node) {
  StandingSubject standing;
  standing.cgroup = subject.cgroup;
  standing.path = std::string(subject.path);
  standing.signal = threshold.signal;
  const Bytes limit = threshold.limit.of(signal.capacity).bytes();
  if (!subject.is_node() || row_of(threshold.signal).measure == Measure::working_set) {
    standing.headroom = subtract({signal.available}, half_of(limit));
    standing.used = signal.level->used();
    standing.inactive_file = signal.level->inactive_file;
  }
  const auto left = subject.is_node() && !has_swap(node) ? until_oom(node) : std::nullopt;
  if (left) standing.headroom_left = subtract(*left, half_of(limit));
  return standing;
}

// The nearest line of each kind.
void add_threshold(StandingSubject& to, const StandingSubject& other) {
  to.headroom = lower(to.headroom, other.headroom);
  to.headroom_left = lower(to.headroom_left, other.headroom_left);
}

bool is_before(const StandingSubject& a, const StandingSubject& b) {
  if (a.cgroup == CgroupId{} || b.cgroup == CgroupId{}) return a.cgroup == CgroupId{};
  return *a.headroom < *b.headroom;
}

}  // namespace

std::optional<StandingSubject> standing_subject(const Config& config,
                                                const Observation& observation) {
  const MonotonicTime lately = observation.at - config.kill_limit.window;
  const bool killed = std::ranges::any_of(observation.kills, [&](const KillProgress& kill) {
    return kill.state == KillState::in_flight || kill.state == KillState::terminating ||
           kill.started > lately;
  });
  if (config.ranking == Ranking::kernel || killed) return std::nullopt;
  if (!guard_orders(config, observation).empty()) return std::nullopt;
  std::optional<StandingSubject> chosen;
  for_each_subject(config, observation,
                   [&](std::size_t, const Threshold& threshold, const Subject& subject,
                       const std::optional<SignalState>& signal) {
                     const bool kills = threshold.hard() && threshold.response == Response::evict;
                     if (!kills || !signal || !signal->level) return;
                     auto standing = of_threshold(threshold, subject, *signal, observation.node);
                     if (!standing.headroom && !standing.headroom_left) return;
                     if (chosen && chosen->cgroup == standing.cgroup) {
                       add_threshold(*chosen, standing);
                     } else if (!chosen || is_before(standing, *chosen)) {
                       chosen = std::move(standing);
                     }
                   });
  return chosen;
}

StandingOrder standing_order(const Config& config, const StandingSubject& subject,
                             const Observation& observation) {
  StandingOrder order;
  if (!observation.workloads) return order;
  const Exclusions exclusions(*observation.workloads, observation.kills);
  const RankBy by{subject.signal, std::nullopt, config.compat, config.ranking};
  const Subject at =
      subject.cgroup == CgroupId{} ? Subject{} : Subject{subject.cgroup, subject.path};
  order.considered = rank(*observation.workloads, by, at, exclusions);
  const KillRate rate(config, observation);
  for (std::size_t i = 0; i < order.considered.size(); ++i) {
    const Candidate& candidate = order.considered[i];
    if (candidate.exclusion != Exclusion::none || !candidate.sample.working_set()) continue;
    const bool spared = candidate.key.priority_unknown ||
                        rate.is_reached(workload_class_at(candidate.sample.workload.path));
    order.workloads.push_back({i, !spared});
  }
  return order;
}

}  // namespace forestall::policy
