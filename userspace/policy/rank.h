// SPDX-License-Identifier: Apache-2.0
// The order of eviction under memory pressure: kubelet's (pkg/kubelet/eviction/helpers.go
// rankMemoryPressure), as a list of named rules, each of which either decides or passes on.
//
// 1. missing-statistics: a workload whose working set is unknown goes before one whose is known.
//    Kubelet's rule, kept: it is usually one that only just started. What could not be read
//    because it is gone never gets here (the observer drops it), and the kill ladder verifies
//    its victim, so the worst case is a failed attempt and the next candidate.
// 2. exceeds-request: working set above the request (no request: 0) goes first.
// 3. priority: the lower priority (none: 0) goes first.
// 4. over-request: the larger working set - request goes first.
// Then path and identity, which make the order total and independent of the input's order.
// QoS class and limits are never looked at.
#pragma once

#include <array>
#include <compare>
#include <string_view>
#include <vector>

#include "model/decision.h"
#include "model/workload.h"
#include "policy/exclusion.h"
#include "policy/signals.h"

namespace forestall::policy {

struct RankRule {
  std::string_view name;
  // less: `a` is evicted before `b`.
  std::weak_ordering (*compare)(const RankKey& a, const RankKey& b);
};

inline constexpr std::size_t kMemoryRuleCount = 4;
extern const std::array<RankRule, kMemoryRuleCount> kMemoryRules;

[[nodiscard]] RankKey rank_key(const WorkloadSample& sample);

// Whether `a` is evicted before `b`: a strict weak order, total on distinct cgroups.
[[nodiscard]] bool evicted_before(const Candidate& a, const Candidate& b);

// The name of the rule that puts `earlier` before `later`; "path" when no rule does.
[[nodiscard]] std::string_view deciding_rule(const RankKey& earlier, const RankKey& later);

// The candidates for `subject` in eviction order, excluded ones included: every workload for the
// node, those at or below its cgroup for any other. O(n log n).
[[nodiscard]] std::vector<Candidate> rank(const std::vector<WorkloadSample>& workloads,
                                          const Subject& subject, const Exclusions& exclusions);

}  // namespace forestall::policy
