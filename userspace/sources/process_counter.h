// SPDX-License-Identifier: Apache-2.0
// How many processes are in a cgroup and below it, by held descriptors alone.
//
// The descriptors cover the groups that existed when they were opened. Whether that is still the
// whole subtree shows without listing it: a removed group fails its read with ENODEV, and an added
// one raises the link count of its parent directory (kernfs counts subdirectories). Only then is
// the subtree walked afresh.
//
// On cgroup v1 a list of processes once read is kept for its reader for a second after the last
// reading (kernel/cgroup/cgroup-v1.c cgroup_pidlist_start, CGROUP_PIDLIST_DESTROY_DELAY): a held
// descriptor that is read again sooner shows those of before. There the file is opened anew for
// each count, which makes the list afresh.
//
// Descriptors are what a kill needs too, and a delegated workload may make as many groups as it
// likes: of one with more than kGroupsMax none are held, and each count walks it.
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

  // Opens what is there; an unreadable group is an error of every count() then.
  explicit ProcessCounter(const kernel::CgroupDir& cgroup);

  // Thread groups in the subtree, those of other pid namespaces included. ENODEV when `cgroup`
  // itself, which must be the one given at construction, was removed.
  [[nodiscard]] Result<std::uint64_t> count(const kernel::CgroupDir& cgroup, std::string& buffer);
  // How many descriptors it holds: two for each group, at most 2 * kGroupsMax.
  [[nodiscard]] std::size_t descriptors() const { return 2 * groups_.size(); }

 private:
  struct Group {
    UniqueFd directory;  // O_PATH
    nlink_t links = 0;
    kernel::HeldFile processes;
    bool list_is_kept = false;  // cgroup v1
  };
  // Opens all groups afresh, or none.
  Result<void> open_all(const kernel::CgroupDir& cgroup);
  Result<void> open_below(UniqueFd directory, const std::string& path, int depth);
  [[nodiscard]] Result<std::uint64_t> count_held(std::string& buffer) const;
  [[nodiscard]] Result<std::uint64_t> count_by_walk(const kernel::CgroupDir& cgroup,
                                                    std::string& buffer);
  [[nodiscard]] static Result<std::string_view> read_list(const Group& group, std::string& buffer);

  std::vector<Group> groups_;
  bool complete_ = false;
  bool too_many_ = false;
};

}  // namespace forestall::sources
