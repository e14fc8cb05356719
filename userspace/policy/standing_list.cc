// SPDX-License-Identifier: Apache-2.0
#include "policy/standing_list.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/parse.h"
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

// Unknown counts as swap.
bool has_swap(const NodeSample& node) {
  return !node.swap_total || *node.swap_total > Bytes{0};
}

// Whether the programs can compare the threshold with what it is about.
bool is_counted(const Threshold& threshold, const Subject& subject, const NodeSample& node) {
  const Measure measure = row_of(threshold.signal).measure;
  if (!subject.is_node()) return measure == Measure::working_set && !threshold.capacity;
  return measure == Measure::memory_and_swap && !has_swap(node);
}

StandingSubject of_threshold(const Threshold& threshold, const Subject& subject,
                             const SignalState& signal) {
  StandingSubject standing;
  standing.cgroup = subject.cgroup;
  standing.path = std::string(subject.path);
  standing.signal = threshold.signal;
  const Bytes limit = threshold.limit.of(signal.capacity).bytes();
  standing.capacity = signal.level->capacity;
  standing.available = Bytes{signal.available};
  standing.line = half_of(limit);
  standing.inactive_file = signal.level->inactive_file;
  return standing;
}

// The node first.
bool is_before(const StandingSubject& a, const StandingSubject& b) {
  const bool cgroup_a = a.cgroup != CgroupId{};
  const bool cgroup_b = b.cgroup != CgroupId{};
  return std::pair(cgroup_a, subtract(a.available, a.line)) <
         std::pair(cgroup_b, subtract(b.available, b.line));
}

std::int32_t compared_priority(const RankKey& key) {
  switch (key.preference) {
    case Preference::prefer: return std::numeric_limits<std::int32_t>::min();
    case Preference::avoid: return std::numeric_limits<std::int32_t>::max();
    case Preference::normal: break;
  }
  return key.priority;
}

// As systemd-logind names them.
bool is_of_session(std::string_view path) {
  while (!path.empty()) {
    const std::string_view part = next_field(path, '/');
    if (part == "user.slice") return true;
    if (part.starts_with("session-") && part.ends_with(".scope")) return true;
  }
  return false;
}

}  // namespace

std::optional<StandingSubject> standing_subject(const Config& config,
                                                const Observation& observation,
                                                std::span<const CgroupId> left_out) {
  const MonotonicTime lately = observation.at - config.kill_limit.window;
  const bool killed = std::ranges::any_of(observation.kills, [&](const KillProgress& kill) {
    return kill.state == KillState::in_flight || kill.state == KillState::terminating ||
           kill.started > lately;
  });
  if (config.ranking == Ranking::kernel || killed) return std::nullopt;
  if (!guard_subjects(config, observation).empty()) return std::nullopt;
  std::optional<StandingSubject> chosen;
  for_each_subject(config, observation,
                   [&](std::size_t, const Threshold& threshold, const Subject& subject,
                       const std::optional<SignalState>& signal) {
                     const bool kills = threshold.hard() && threshold.response == Response::evict;
                     if (!kills || !signal || !signal->level) return;
                     if (!is_counted(threshold, subject, observation.node)) return;
                     if (std::ranges::find(left_out, subject.cgroup) != left_out.end()) return;
                     auto standing = of_threshold(threshold, subject, *signal);
                     if (!chosen || is_before(standing, *chosen)) chosen = std::move(standing);
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
                        candidate.key.preference == Preference::avoid ||
                        rate.is_reached(workload_class_at(candidate.sample.workload.path));
    order.workloads.push_back({i, !spared, compared_priority(candidate.key),
                               is_of_session(candidate.sample.workload.path)});
  }
  return order;
}

}  // namespace forestall::policy
