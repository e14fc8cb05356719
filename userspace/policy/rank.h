// SPDX-License-Identifier: Apache-2.0
// The order of eviction: kubelet's (kubelet.md §5; pkg/kubelet/eviction/helpers.go
// rankMemoryPressure, rankDiskPressureFunc, rankPIDPressure), as a list of named rules for each
// resource, each of which either decides or passes on.
//
// memory, ephemeral-storage and inodes:
// 1. missing-statistics: a workload whose usage is unknown goes before one whose is known.
//    Kubelet's rule, kept: it is usually one that only just started. What could not be read
//    because it is gone never gets here (the observer drops it), and the kill ladder verifies
//    its victim, so the worst case is a failed attempt and the next candidate.
// 2. exceeds-request: usage above the request (no request: 0) goes first.
// 3. priority: the lower priority (none: 0) goes first.
// 4. over-request: the larger usage - request goes first.
// pids:
// 1. priority, 2. missing-statistics, 3. processes: the one with more of them goes first.
// Then path and identity, which make the order total and independent of the input's order.
// QoS class and limits are never looked at.
//
// With Ranking::kubelet_growth, for memory only, a rule between 3 and 4:
// 3a. growth: whoever grew more since the warning line was crossed goes first.
// Why: of several workloads that grow at once each is still small when memory runs out, so size
// points at whoever was large and calm all along; every agent that ranks by size killed such a
// bystander in 8 of 9 spikes (bench.md, scenario c). What a workload was granted, its request and
// priority, still comes first. Growth below max(1 MiB, 1/64 of the largest) is noise and counts as
// 0, so that among the calm over-request decides; so does it among all while growth is not known.
// The largest is that of all candidates, protected ones and victims included: growth that is small
// beside theirs is not where the memory went.
//
// With Ranking::kernel, for memory only, a rule before those:
// 0. kernel-badness: the workload with the process that the kernel's OOM killer prefers goes first,
//    then whoever has no points, as kubelet would have them.
// Kubelet's rules also break ties, since the kernel's own tie rule is about processes, not
// workloads. Without points is who was not scored: all of them if the scan failed, so that
// kubelet's order is what is left; and one whose cgroup came or went beside the scan, which is too
// new or gone already, and whose turn comes with the next look. Scored but without points is a
// workload in which the kernel could choose nobody: it is spared as unkillable.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/config.h"
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

// A working set moves by this much by itself: charges come in batches of 64 pages for each CPU
// (mm/memcontrol.c MEMCG_CHARGE_BATCH), and a calm server allocates, too.
inline constexpr Bytes kGrowthNoiseMin = mib(1);

// What the ranking is for.
struct RankBy {
  Signal signal = Signal::memory_available;
  std::optional<FilesystemLayout> layout;  // not known: ranks as single, where all parts count
  Compat compat;
  Ranking ranking = Ranking::kubelet;
  // Growth below this counts as none; rank() sets it from the workloads it is given.
  Bytes growth_noise = kGrowthNoiseMin;
};

// The comparators for a resource, in their order.
[[nodiscard]] std::span<const RankRule> rules_for(Resource resource,
                                                  Ranking ranking = Ranking::kubelet);

// The values that `rules_for(resource_of(by.signal), by.ranking)` compare. An unknown usage leaves
// all that is made from it equal, so that two workloads without statistics are told apart by
// priority only.
[[nodiscard]] RankKey rank_key(const WorkloadSample& sample, const RankBy& by);

// Whether `a` is evicted before `b`: a strict weak order, total on workloads that differ in path,
// cgroup, name or UID.
[[nodiscard]] bool evicted_before(const Candidate& a, const Candidate& b, Resource resource,
                                  Ranking ranking = Ranking::kubelet);

// The name of the rule that puts `earlier` before `later`; "path" when no rule does.
[[nodiscard]] std::string_view deciding_rule(const RankKey& earlier, const RankKey& later,
                                             Resource resource, Ranking ranking = Ranking::kubelet);

// The candidates for `subject` in eviction order, excluded ones included: every workload for the
// node, those at or below its cgroup for any other; if there is none, the innermost one around it,
// because what is short is then a part of that workload (a container of a pod). But no pod whose
// containers have all ended for good (pod_facts.h, is_active). By the kernel's order a scored one
// without points is Exclusion::unkillable, unless `exclusions` has a reason already. `growth_noise`
// of `by` is not looked at: it is that of the candidates. O(n log n).
[[nodiscard]] std::vector<Candidate> rank(const std::vector<WorkloadSample>& workloads,
                                          const RankBy& by, const Subject& subject,
                                          const Exclusions& exclusions);

}  // namespace forestall::policy
