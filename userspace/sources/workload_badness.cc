// SPDX-License-Identifier: Apache-2.0
#include "sources/workload_badness.h"

#include <algorithm>
#include <numeric>

#include "sources/cgroup_walk.h"

namespace forestall::sources {

void WorkloadScorer::take(Best& best, const Best& other) {
  if (other.process == nullptr) return;
  const bool better = best.process == nullptr || other.points > best.points ||
                      (other.points == best.points && other.process->order > best.process->order);
  if (better) best = other;
}

const std::size_t* WorkloadScorer::find(CgroupId cgroup) const {
  const auto id_of = [&](std::size_t index) { return cgroups_[index].id; };
  const auto found = std::ranges::lower_bound(by_id_, cgroup, {}, id_of);
  return found != by_id_.end() && id_of(*found) == cgroup ? &*found : nullptr;
}

Result<void> WorkloadScorer::scan(const kernel::CgroupTree& tree, ProcessSource& processes,
                                  Pages total_pages) {
  by_id_.clear();
  // Processes first: a process in a cgroup created after the walk would not count for any workload.
  TRY(processes.scan(std::nullopt, samples_));
  TRY(walk_memory_cgroups(tree, "/", cgroups_));
  by_id_.resize(cgroups_.size());
  std::iota(by_id_.begin(), by_id_.end(), std::size_t{0});
  std::ranges::sort(by_id_, {}, [&](std::size_t index) { return cgroups_[index].id; });
  best_.assign(cgroups_.size(), {});
  for (const auto& sample : samples_) {
    if (sample.unkillable != Unkillable::none) continue;
    const auto* index = find(sample.cgroup);
    if (index != nullptr) take(best_[*index], {&sample, sample.points(total_pages)});
  }
  // Children follow their parents in the list.
  for (std::size_t i = cgroups_.size(); i-- > 0;) {
    if (cgroups_[i].parent) take(best_[*cgroups_[i].parent], best_[i]);
  }
  return {};
}

void WorkloadScorer::report(std::vector<WorkloadSample>& workloads) const {
  for (auto& workload : workloads) {
    const auto* index = find(workload.workload.cgroup);
    if (index == nullptr) continue;
    workload.scored = true;
    const auto& best = best_[*index];
    if (best.process != nullptr) workload.badness = WorkloadBadness{best.process->id, best.points};
  }
}

}  // namespace forestall::sources
