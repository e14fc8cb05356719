// SPDX-License-Identifier: Apache-2.0
#include "agent/unlisted_cgroups.h"

#include <algorithm>

#include "base/parse.h"
#include "kernel/cgroup_tree.h"
#include "policy/candidate_memory.h"
#include "sources/workload_rules.h"

namespace forestall::agent {
namespace {

// Whether a path inside of `path` can match the glob: its first parts match `path`, and it has
// more.
bool can_match_inside(const std::string& glob, const std::string& path) {
  const auto parts = std::ranges::count(path, '/');
  std::size_t end = 0;
  for (auto part = parts; part > 0 && end != std::string::npos; --part) {
    end = glob.find('/', end + 1);
  }
  return end != std::string::npos && kernel::glob_matches(glob.substr(0, end), path);
}

// A pod comes in the pods cgroup or a QoS group, never inside of another pod.
bool can_hold_pods(const Workload& victim, const Config& config, std::string_view pods_path) {
  if (!config.pods || pods_path.empty() || victim.kind == WorkloadKind::pod) return false;
  return path_is_within(victim.path, pods_path) || path_is_within(pods_path, victim.path);
}

// Whether a rule protects what may be at `path`, or below it.
bool can_be_protected(const std::string& path, const Config& config) {
  return std::ranges::any_of(config.workloads, [&](const WorkloadRule& rule) {
    return sources::protects(rule) &&
           (kernel::glob_matches(rule.cgroup, path) || can_match_inside(rule.cgroup, path));
  });
}

bool can_hold_protected(const Workload& victim, const Config& config) {
  return std::ranges::any_of(config.workloads, [&](const WorkloadRule& rule) {
    return sources::protects(rule) && can_match_inside(rule.cgroup, victim.path);
  });
}

}  // namespace

bool may_be_reached(const Workload& victim, const UnlistedCgroups& unlisted, const Config& config) {
  const bool pods = can_hold_pods(victim, config, unlisted.pods_path);
  if (!unlisted.paths) return pods || can_hold_protected(victim, config);
  return std::ranges::any_of(*unlisted.paths, [&](const std::string& path) {
    if (path_is_within(victim.path, path)) return true;
    return path_is_within(path, victim.path) && (pods || can_be_protected(path, config));
  });
}

bool unlisted_cannot_change(const Decision& decision, const UnlistedCgroups& unlisted,
                            const Config& config) {
  if (!decision.driving) return false;
  Bytes largest;
  for (const Eviction& eviction : decision.evictions) {
    const WorkloadSample& victim = decision.considered[eviction.candidate].sample;
    if (may_be_reached(victim.workload, unlisted, config)) return false;
    largest = std::max(largest, victim.working_set().value_or(Bytes{0}));
  }
  const Evidence& driving = decision.evidence[*decision.driving];
  const Bytes used{driving.capacity - driving.available};
  const auto known = policy::held_by(decision.considered, [](const Candidate& candidate) {
    return candidate.sample.working_set().has_value();
  });
  return known && used - *known <= largest;
}

}  // namespace forestall::agent
