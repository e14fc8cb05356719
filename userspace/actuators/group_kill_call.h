// SPDX-License-Identifier: Apache-2.0
// What a thread does for a cgroup.kill: opens the file and writes it, and opens cgroup.events. Each
// of these may wait for a lock that any tenant takes, so the loop does none of them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actuators/reaper_pool.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

// Thread rule: the loop's, and the thread's from submit() until its report. Only `withdrawn` is
// written meanwhile.
struct GroupKillCall {
  const kernel::CgroupTree& tree;
  // The victim's directory. On a hybrid host null: it is the group of the path in the v2 hierarchy,
  // if its processes are exactly `present`, or a subset of them.
  std::shared_ptr<const kernel::CgroupDir> directory = {};
  std::string path = {};
  std::vector<pid_t> present = {};  // sorted
  bool exactly = false;
  bool kills = true;  // false: only opens cgroup.events
  // A kill whose turn is later than this is not written (ETIME): the cgroup may have new processes
  // by then.
  MonotonicTime not_after = MonotonicTime::max();
  // Once true, the kill is not begun any more (ECANCELED).
  std::atomic<bool> withdrawn{false};

  // cgroup.events, once it is reported; unset if it could not be opened.
  UniqueFd events = {};

  [[nodiscard]] ReapReport run(std::uint64_t ticket);

 private:
  // Errno; 0: all processes were signalled.
  [[nodiscard]] int kill(const kernel::CgroupDir& group) const;
};

// The group of a path in the v2 hierarchy of a hybrid host, if its processes are exactly `present`,
// or a subset of them. Null: they are not, or it has none.
[[nodiscard]] std::unique_ptr<const kernel::CgroupDir> find_same_group(
    const kernel::CgroupTree& tree, const std::string& path, const std::vector<pid_t>& present,
    bool exactly);

}  // namespace forestall::actuators
