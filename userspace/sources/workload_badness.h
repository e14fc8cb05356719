// SPDX-License-Identifier: Apache-2.0
// Predicts which process the kernel's OOM killer selects in each workload.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/oom.h"
#include "model/workload.h"
#include "sources/process_source.h"

namespace forestall::sources {

class WorkloadScorer {
 public:
  // Scans the node. Points are those of a node that is out of memory; `total_pages` is its RAM and
  // swap. Costs 1.6 µs per process with BPF, 40 µs from /proc, and 8 µs per cgroup; the caller
  // waits for it. After an error no workload is scored.
  Result<void> scan(const kernel::CgroupTree& tree, ProcessSource& processes, Pages total_pages);

  // Fills `scored` and `badness` of `workloads` from the last scan; reads nothing. A process counts
  // for each workload whose cgroup contains it, directly or in a descendant. If points are equal,
  // the process forked last is named, as in the kernel's walk. Workloads that the scan did not find
  // in the tree stay unscored.
  void report(std::vector<WorkloadSample>& workloads) const;

 private:
  // The highest of a cgroup and its descendants.
  struct Best {
    const ProcessSample* process = nullptr;
    Pages points = 0;
  };
  static void take(Best& best, const Best& other);
  [[nodiscard]] const std::size_t* find(CgroupId cgroup) const;

  // Kept between scans to reuse their memory.
  std::vector<ProcessSample> samples_;
  std::vector<OomCgroup> cgroups_;
  std::vector<std::size_t> by_id_;  // indices of cgroups_, ascending by id
  std::vector<Best> best_;          // of cgroups_
};

}  // namespace forestall::sources
