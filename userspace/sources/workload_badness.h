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
  // Fills `scored` and `badness` of `workloads` from one scan of the node: points as a node that is
  // out of memory gives them, `total_pages` being its RAM and swap. A process counts for each
  // workload whose cgroup holds it or a cgroup around it. Of equal points the one forked last is
  // named, as in the kernel's walk. What could not be found in the tree stays unscored.
  Result<void> score(const kernel::CgroupTree& tree, ProcessSource& processes, Pages total_pages,
                     std::vector<WorkloadSample>& workloads);

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
