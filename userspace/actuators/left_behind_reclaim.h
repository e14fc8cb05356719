// SPDX-License-Identifier: Apache-2.0
// Reclaims what stays charged to a workload whose last process has exited, if the agent did not
// kill it: page cache, slab and, with swap, tmpfs and shared memory. victim_reclaim.h does the
// same for a victim. The write takes place on a thread of its own.
//
// A tenant decides how many such groups there are. So one reclaim runs at a time, each group is
// tried at most once in ten seconds, and at most kGroupsMax groups are in that time. Processes that
// enter the group meanwhile lose page cache of their own group and, with swap, are swapped out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actuators/reaper_pool.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/memory_kinds.h"
#include "model/workload.h"

namespace forestall::actuators {

struct Reclaimed {
  std::string path;
  Bytes before;                // usage
  std::optional<Bytes> after;  // nullopt: unknown, or the cgroup was removed
  MemoryKinds kinds;           // of what is left
  std::optional<Error> failure;
};

// Thread rule: the loop's thread only.
class LeftBehindReclaim {
 public:
  // All outlive it.
  LeftBehindReclaim(const kernel::CgroupTree& tree, const Clock& clock, ReaperPool& reclaimer)
      : tree_(tree), clock_(clock), reclaimer_(reclaimer) {}

  // False: nothing was started.
  bool start(const WorkloadSample& sample);
  // The report on the job with this number.
  void on_report(std::uint32_t number, const ReapReport& report);
  // The results since the last call.
  [[nodiscard]] std::vector<Reclaimed> take() { return std::exchange(ended_, {}); }

 private:
  static constexpr std::size_t kGroupsMax = 64;
  struct Tried {
    CgroupId cgroup;
    MonotonicTime at;
  };
  struct Running {
    std::uint32_t number = 0;
    kernel::CgroupDir group;
    Bytes before;
  };

  const kernel::CgroupTree& tree_;
  const Clock& clock_;
  ReaperPool& reclaimer_;
  std::uint32_t last_number_ = 0;
  std::vector<Tried> tried_;
  std::optional<Running> running_;
  std::vector<Reclaimed> ended_;
};

}  // namespace forestall::actuators
