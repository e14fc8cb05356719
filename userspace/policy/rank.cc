// SPDX-License-Identifier: Apache-2.0
// Eviction order: the rules, and sorting by them.
#include "policy/rank.h"

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

// True sorts first.
std::weak_ordering true_first(bool a, bool b) {
  return b <=> a;
}

std::weak_ordering missing_statistics(const RankKey& a, const RankKey& b) {
  return true_first(!a.measured, !b.measured);
}
std::weak_ordering exceeds_request(const RankKey& a, const RankKey& b) {
  return true_first(a.exceeds_request, b.exceeds_request);
}
std::weak_ordering priority(const RankKey& a, const RankKey& b) {
  return a.priority <=> b.priority;
}
std::weak_ordering over_request(const RankKey& a, const RankKey& b) {
  return b.over_request <=> a.over_request;
}

// A workload with its key, light enough to be moved about by a sort.
struct Ranked {
  RankKey key;
  const WorkloadSample* sample = nullptr;
};

bool before(const RankKey& a, const Workload& left, const RankKey& b, const Workload& right) {
  for (const RankRule& rule : kMemoryRules) {
    const std::weak_ordering order = rule.compare(a, b);
    if (order != 0) return order < 0;
  }
  if (left.path != right.path) return left.path < right.path;
  return left.cgroup < right.cgroup;
}

}  // namespace

constinit const std::array<RankRule, kMemoryRuleCount> kMemoryRules{
    RankRule{"missing-statistics", missing_statistics},
    RankRule{"exceeds-request", exceeds_request},
    RankRule{"priority", priority},
    RankRule{"over-request", over_request},
};

// An unknown working set leaves the keys made from it equal, so that two workloads without
// statistics are told apart by priority only, as kubelet's comparators have it.
RankKey rank_key(const WorkloadSample& sample) {
  RankKey key;
  key.priority = sample.workload.priority.value_or(0);
  const std::optional<Bytes> used = sample.working_set();
  key.measured = used.has_value();
  if (!used) return key;
  key.over_request = subtract(*used, sample.workload.memory_request.value_or(Bytes{0}));
  key.exceeds_request = key.over_request > Bytes{0};
  return key;
}

bool evicted_before(const Candidate& a, const Candidate& b) {
  return before(a.key, a.sample.workload, b.key, b.sample.workload);
}

std::string_view deciding_rule(const RankKey& earlier, const RankKey& later) {
  for (const RankRule& rule : kMemoryRules) {
    if (rule.compare(earlier, later) != 0) return rule.name;
  }
  return "path";
}

std::vector<Candidate> rank(const std::vector<WorkloadSample>& workloads, const Subject& subject,
                            const Exclusions& exclusions) {
  std::vector<Ranked> ranked;
  ranked.reserve(workloads.size());
  for (const WorkloadSample& sample : workloads) {
    if (!subject.is_node() && !path_is_within(sample.workload.path, subject.path)) continue;
    ranked.push_back({rank_key(sample), &sample});
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return before(a.key, a.sample->workload, b.key, b.sample->workload);
  });
  std::vector<Candidate> candidates;
  candidates.reserve(ranked.size());
  for (const Ranked& one : ranked) {
    candidates.push_back({*one.sample, one.key, exclusions.of(*one.sample)});
  }
  return candidates;
}

}  // namespace forestall::policy
