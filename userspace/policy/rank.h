// SPDX-License-Identifier: Apache-2.0
// The order of eviction: kubelet's (pkg/kubelet/eviction/helpers.go rankMemoryPressure,
// rankDiskPressureFunc, rankPIDPressure), as a list of named rules per resource. Each rule either
// decides or leaves the decision to the next one.
//
// Before all others, for every resource and ranking:
// preference: a workload that is preferred goes first, one that is avoided last. Only annotations
// of pods set one (Config::pod_annotations), and without them it decides nothing.
//
// memory, ephemeral-storage and inodes:
// 1. missing-statistics: a workload of unknown usage precedes one of known usage. This is kubelet's
// rule; usually the workload has only just started. The observer drops removed workloads, and the
// kill ladder verifies its victim, so the worst case is a failed attempt and the next candidate.
// 2. exceeds-request: usage above the request (no request: 0) goes first.
// 3. priority: the lower priority (none: 0) goes first. A pod's priority that is not known goes
//    after every known one.
// 4. over-request: the larger usage - request goes first.
// pids:
// 1. priority, 2. missing-statistics, 3. processes: the larger number of processes goes first.
// Then path and identity, which make the order total and independent of the input's order. QoS
// class and limits are never used.
//
// The first candidate is the victim, unless the limit on damage prefers or holds back one
// (policy/damage_limit.h).
//
// With Ranking::kubelet_growth, for memory only, a rule between 3 and 4:
// 3a. growth: the workload that grew more since the warning line was crossed goes first.
// Reason: several workloads that grow at once are each still small when memory runs out. Ranking by
// size then selects a large workload that does not grow; in a benchmark, agents that rank by size
// killed such a bystander in 8 of 9 spikes. Request and priority still come first. Growth below
// max(1 MiB, 1/64 of the largest) is noise and counts as 0, so that over-request decides among
// workloads that do not grow, and among all while growth is unknown. The largest growth is that of
// all candidates, including protected ones and victims: memory did not go to workloads with small
// growth in comparison.
//
// With Ranking::kernel, for memory only, a rule before those:
// 0. kernel-badness: the workload with the process that the kernel's OOM killer prefers goes first,
// then workloads without points, in kubelet's order.
// Kubelet's rules also break ties, since the kernel's own tie rule is about processes. Points are
// missing if a workload was not scored: all workloads if the scan failed, which leaves kubelet's
// order; or one whose cgroup was created or removed during the scan, which the next evaluation
// covers. A scored workload without points has no process that the kernel could select: it is
// spared as unkillable.
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

// A working set moves by this much without a cause: charges come in batches of 64 pages per CPU
// (mm/memcontrol.c MEMCG_CHARGE_BATCH), and a server without load allocates, too.
inline constexpr Bytes kGrowthNoiseMin = mib(1);

// The purpose of the ranking.
struct RankBy {
  Signal signal = Signal::memory_available;
  std::optional<FilesystemLayout> layout;  // unknown: ranks as single, where all parts count
  Compat compat;
  Ranking ranking = Ranking::kubelet;
  // Growth below this counts as 0; rank() computes it from the given workloads.
  Bytes growth_noise = kGrowthNoiseMin;
};

// The comparators for a resource, in their order.
[[nodiscard]] std::span<const RankRule> rules_for(Resource resource,
                                                  Ranking ranking = Ranking::kubelet);

// The values that `rules_for(resource_of(by.signal), by.ranking)` compare. With unknown usage all
// values derived from it are equal, so only priority distinguishes two workloads without
// statistics.
[[nodiscard]] RankKey rank_key(const WorkloadSample& sample, const RankBy& by);

// Whether `a` is evicted before `b`: a strict weak order, total on workloads that differ in path,
// cgroup, name or UID.
[[nodiscard]] bool evicted_before(const Candidate& a, const Candidate& b, Resource resource,
                                  Ranking ranking = Ranking::kubelet);

// The name of the rule that puts `earlier` before `later`; "path" when no rule does.
[[nodiscard]] std::string_view deciding_rule(const RankKey& earlier, const RankKey& later,
                                             Resource resource, Ranking ranking = Ranking::kubelet);

// The candidates for `subject` in eviction order, excluded ones included: every workload for the
// node, those at or below its cgroup for any other. If there is none, the innermost one around it,
// because the subject is then a part of that workload (a container of a pod). Pods whose containers
// have all ended are omitted (pod_facts.h, is_active). In the kernel's order a scored one without
// points is Exclusion::unkillable, unless `exclusions` has another reason. Ignores `growth_noise`
// of `by` and computes it from the candidates. O(n log n).
[[nodiscard]] std::vector<Candidate> rank(const std::vector<WorkloadSample>& workloads,
                                          const RankBy& by, const Subject& subject,
                                          const Exclusions& exclusions);

}  // namespace forestall::policy
