// SPDX-License-Identifier: Apache-2.0
// Whom the kernel's OOM killer would choose in each workload.
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
  // Scans the node: points as a node that is out of memory gives them, `total_pages` being its RAM
  // and swap. Costs 1.6 µs for each process with BPF, 40 µs from /proc, and 8 µs for each cgroup;
  // the caller waits for it. After an error tell() fills nothing.
  Result<void> scan(const kernel::CgroupTree& tree, ProcessSource& processes, Pages total_pages);

  // Fills `scored` and `badness` of `workloads` from the last scan; reads nothing. A process counts
  // for each workload whose cgroup holds it or a cgroup around it. Of equal points the one forked
  // last is named, as in the kernel's walk. What the scan did not find in the tree stays unscored.
  void tell(std::vector<WorkloadSample>& workloads) const;

 private:
  // The best of a cgroup and of those below it.
  struct Best {
    const ProcessSample* process = nullptr;
    Pages points = 0;
  };
  static void take(Best& best, const Best& other);
  [[nodiscard]] const std::size_t* find(CgroupId cgroup) const;

  // Kept from one scan to the next for their memory.
  std::vector<ProcessSample> samples_;
  std::vector<OomCgroup> cgroups_;
  std::vector<std::size_t> by_id_;  // indices of cgroups_, ascending by id
  std::vector<Best> best_;          // of cgroups_
};

}  // namespace forestall::sources
