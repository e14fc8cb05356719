// SPDX-License-Identifier: Apache-2.0
// Eviction order: the rules, the keys they compare, and sorting by them.
#include "policy/rank.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "base/parse.h"
#include "policy/disk_usage.h"
#include "policy/pod_facts.h"
#include "policy/pod_requests.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

// True sorts first.
std::weak_ordering true_first(bool a, bool b) {
  return b <=> a;
}

std::weak_ordering preference(const RankKey& a, const RankKey& b) {
  return b.preference <=> a.preference;
}
std::weak_ordering missing_statistics(const RankKey& a, const RankKey& b) {
  return true_first(!a.measured, !b.measured);
}
std::weak_ordering exceeds_request(const RankKey& a, const RankKey& b) {
  return true_first(a.exceeds_request, b.exceeds_request);
}
std::weak_ordering priority(const RankKey& a, const RankKey& b) {
  if (a.priority_unknown != b.priority_unknown)
    return true_first(b.priority_unknown, a.priority_unknown);
  return a.priority <=> b.priority;
}
std::weak_ordering over_request(const RankKey& a, const RankKey& b) {
  return b.over_request <=> a.over_request;
}
std::weak_ordering processes(const RankKey& a, const RankKey& b) {
  return b.usage <=> a.usage;
}

// Unknown sorts as 0.
std::weak_ordering growth(const RankKey& a, const RankKey& b) {
  return b.growth.value_or(0) <=> a.growth.value_or(0);
}

// Without points sorts last; std::optional would sort it first.
std::weak_ordering kernel_badness(const RankKey& a, const RankKey& b) {
  return b.badness <=> a.badness;
}

constexpr std::array kKubeletRules{
    RankRule{"preference", preference},
    RankRule{"missing-statistics", missing_statistics},
    RankRule{"exceeds-request", exceeds_request},
    RankRule{"priority", priority},
    RankRule{"over-request", over_request},
};
constexpr std::array kKernelRules{
    RankRule{"preference", preference},
    RankRule{"kernel-badness", kernel_badness},
    RankRule{"missing-statistics", missing_statistics},
    RankRule{"exceeds-request", exceeds_request},
    RankRule{"priority", priority},
    RankRule{"over-request", over_request},
};
constexpr std::array kGrowthRules{
    RankRule{"preference", preference},
    RankRule{"missing-statistics", missing_statistics},
    RankRule{"exceeds-request", exceeds_request},
    RankRule{"priority", priority},
    RankRule{"growth", growth},
    RankRule{"over-request", over_request},
};
constexpr std::array kProcessRules{
    RankRule{"preference", preference},
    RankRule{"priority", priority},
    RankRule{"missing-statistics", missing_statistics},
    RankRule{"processes", processes},
};

std::int32_t priority_of(const Workload& workload) {
  if (workload.priority) return *workload.priority;
  return workload.pod ? workload.pod->priority.value_or(0) : 0;
}

Quantity memory_request(const Workload& workload) {
  if (workload.memory_request) return binary(workload.memory_request->count);
  if (workload.inferred && workload.inferred->memory_request) {
    return binary(workload.inferred->memory_request->count);
  }
  if (!workload.pod) return {};
  return pod_request(*workload.pod, &ResourceList::memory).value_or(Quantity{});
}

Quantity storage_request(const Workload& workload) {
  if (!workload.pod) return {};
  return pod_request(*workload.pod, &ResourceList::ephemeral_storage).value_or(Quantity{});
}

std::int64_t difference(std::int64_t usage, std::int64_t request) {
  return subtract(Bytes{usage}, Bytes{request}).count;
}

// Compares exactly, as kubelet does: a request may be a fraction of a byte.
void set_usage(RankKey& key, std::int64_t usage, const Quantity& request) {
  key.measured = true;
  key.usage = usage;
  key.request = request.value();
  key.exceeds_request = binary(usage) > request;
  key.over_request = difference(key.usage, key.request);
}

DiskUsage disk_usage(const WorkloadSample& sample, const RankBy& by) {
  return measured(sample, filesystem_of(by.signal).value_or(Filesystem::nodefs),
                  by.layout.value_or(FilesystemLayout::single));
}

void measure_memory(const WorkloadSample& sample, RankKey& key) {
  const std::optional<Bytes> used = sample.working_set();
  if (used) set_usage(key, used->count, memory_request(sample.workload));
}

void measure_storage(const WorkloadSample& sample, const RankBy& by, RankKey& key) {
  const auto used = disk_usage(sample, by).used;
  if (used) set_usage(key, used->count, storage_request(sample.workload));
}

void measure_inodes(const WorkloadSample& sample, const RankBy& by, RankKey& key) {
  const auto inodes = disk_usage(sample, by).inodes;
  if (!inodes) return;
  set_usage(key, *inodes, Quantity{});
  if (!by.compat.inode_rank_subtracts_bytes) return;
  key.request = storage_request(sample.workload).value();
  key.over_request = difference(key.usage, key.request);
}

void measure_processes(const WorkloadSample& sample, RankKey& key) {
  if (!sample.processes) return;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  key.measured = true;
  key.usage = static_cast<std::int64_t>(std::min(*sample.processes, kMost));
}

// A workload with its key, small enough to be moved by a sort.
struct Ranked {
  RankKey key;
  const WorkloadSample* sample = nullptr;
};

bool before(const RankKey& a, const Workload& left, const RankKey& b, const Workload& right,
            std::span<const RankRule> rules) {
  for (const RankRule& rule : rules) {
    const std::weak_ordering order = rule.compare(a, b);
    if (order != 0) return order < 0;
  }
  // Name and UID distinguish workloads read from files, which have no cgroup.
  return std::tie(left.path, left.cgroup, left.name, left.pod_uid) <
         std::tie(right.path, right.cgroup, right.name, right.pod_uid);
}

bool goes_by(Ranking ranking, const RankBy& by) {
  return by.ranking == ranking && resource_of(by.signal) == Resource::memory;
}

bool is_kernel_ranking(const RankBy& by) {
  return goes_by(Ranking::kernel, by);
}

std::optional<std::int64_t> counted_growth(const WorkloadSample& sample, Bytes noise) {
  if (!sample.growth) return std::nullopt;
  return *sample.growth < noise ? 0 : sample.growth->count;
}

Bytes noise_beside(Bytes largest) {
  return std::max(kGrowthNoiseMin, Bytes{largest.count / 64});
}

}  // namespace

std::span<const RankRule> rules_for(Resource resource, Ranking ranking) {
  if (resource == Resource::pids) return kProcessRules;
  if (resource != Resource::memory) return kKubeletRules;
  switch (ranking) {
    case Ranking::kubelet: return kKubeletRules;
    case Ranking::kubelet_growth: return kGrowthRules;
    case Ranking::kernel: return kKernelRules;
  }
  return kKubeletRules;
}

RankKey rank_key(const WorkloadSample& sample, const RankBy& by) {
  RankKey key;
  key.preference = sample.workload.preference;
  key.priority = priority_of(sample.workload);
  key.priority_unknown = priority_unknown(sample.workload);
  switch (resource_of(by.signal)) {
    case Resource::memory: measure_memory(sample, key); break;
    case Resource::ephemeral_storage: measure_storage(sample, by, key); break;
    case Resource::inodes: measure_inodes(sample, by, key); break;
    case Resource::pids: measure_processes(sample, key); break;
  }
  if (is_kernel_ranking(by) && sample.scored && sample.badness)
    key.badness = sample.badness->points;
  if (goes_by(Ranking::kubelet_growth, by)) key.growth = counted_growth(sample, by.growth_noise);
  return key;
}

bool evicted_before(const Candidate& a, const Candidate& b, Resource resource, Ranking ranking) {
  return before(a.key, a.sample.workload, b.key, b.sample.workload, rules_for(resource, ranking));
}

std::string_view deciding_rule(const RankKey& earlier, const RankKey& later, Resource resource,
                               Ranking ranking) {
  for (const RankRule& rule : rules_for(resource, ranking)) {
    if (rule.compare(earlier, later) != 0) return rule.name;
  }
  return "path";
}

std::vector<Candidate> rank(const std::vector<WorkloadSample>& workloads, const RankBy& by,
                            const Subject& subject, const Exclusions& exclusions) {
  std::vector<Ranked> ranked;
  ranked.reserve(workloads.size());
  Bytes largest_growth;
  const WorkloadSample* around = nullptr;
  for (const WorkloadSample& sample : workloads) {
    const Workload& workload = sample.workload;
    if (workload.pod && !is_active(*workload.pod)) continue;
    if (subject.is_node() || path_is_within(workload.path, subject.path)) {
      ranked.push_back({{}, &sample});
      largest_growth = std::max(largest_growth, sample.growth.value_or(Bytes{0}));
    } else if (path_is_within(subject.path, workload.path) &&
               (around == nullptr || path_is_within(workload.path, around->workload.path))) {
      around = &sample;
    }
  }
  if (ranked.empty() && around != nullptr) ranked.push_back({{}, around});
  RankBy with_noise = by;
  with_noise.growth_noise = noise_beside(largest_growth);
  for (Ranked& one : ranked) one.key = rank_key(*one.sample, with_noise);
  const auto rules = rules_for(resource_of(by.signal), by.ranking);
  std::sort(ranked.begin(), ranked.end(), [rules](const Ranked& a, const Ranked& b) {
    return before(a.key, a.sample->workload, b.key, b.sample->workload, rules);
  });
  std::vector<Candidate> candidates;
  candidates.reserve(ranked.size());
  for (const Ranked& one : ranked) {
    Exclusion exclusion = exclusions.of(*one.sample);
    if (exclusion == Exclusion::none && is_kernel_ranking(by) && one.sample->scored &&
        !one.key.badness) {
      exclusion = Exclusion::unkillable;
    }
    candidates.push_back({*one.sample, one.key, exclusion});
  }
  return candidates;
}

}  // namespace forestall::policy
