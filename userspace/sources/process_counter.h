// SPDX-License-Identifier: Apache-2.0
// Counts the processes in a cgroup and its descendants on held descriptors.
//
// The descriptors cover the groups that existed when they were opened. A change of the subtree is
// detected without listing it: a removed group fails its read with ENODEV, and an added one raises
// the link count of its parent directory (kernfs counts subdirectories). Only then is the subtree
// walked again.
//
// On cgroup v1 the kernel caches a process list per reader for a second after the last read
// (kernel/cgroup/cgroup-v1.c cgroup_pidlist_start, CGROUP_PIDLIST_DESTROY_DELAY). A held descriptor
// read again sooner returns the old list. There the file is opened anew for each count.
//
// A kill needs descriptors too, and a delegated workload may create any number of groups. For more
// than kGroupsMax groups none are held, and each count walks the subtree.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"

namespace forestall::sources {

class ProcessCounter {
 public:
  static constexpr std::size_t kGroupsMax = 64;

  // Opens the existing groups. If one is unreadable, every count() fails.
  explicit ProcessCounter(const kernel::CgroupDir& cgroup);

  // Thread groups in the subtree, including those of other pid namespaces. ENODEV if `cgroup`
  // itself, which must be the one given at construction, was removed.
  [[nodiscard]] Result<std::uint64_t> count(const kernel::CgroupDir& cgroup, std::string& buffer);
  // Descriptors held: two per group, at most 2 * kGroupsMax.
  [[nodiscard]] std::size_t descriptors() const { return 2 * groups_.size(); }

 private:
  struct Group {
    UniqueFd directory;  // O_PATH
    nlink_t links = 0;
    kernel::HeldFile processes;
    bool list_is_kept = false;  // cgroup v1
  };
  // Opens all groups again, or none.
  Result<void> open_all(const kernel::CgroupDir& cgroup);
  Result<void> open_below(UniqueFd directory, const std::string& path);
  [[nodiscard]] Result<std::uint64_t> count_held(std::string& buffer) const;
  [[nodiscard]] Result<std::uint64_t> count_by_walk(const kernel::CgroupDir& cgroup);
  [[nodiscard]] static Result<std::uint64_t> count_group(const Group& group, std::string& buffer);

  std::vector<Group> groups_;
  bool complete_ = false;
  bool too_many_ = false;
};

}  // namespace forestall::sources
