// SPDX-License-Identifier: Apache-2.0
// Freezes one cgroup (v2) for a time and always thaws it.
//
// The destructor thaws. SIGKILL runs no destructor, so a record (kernel/setting_records.h) exists
// from before the freeze until after the thaw, and the next start thaws what it names. Text of a
// record: <pid> <start ticks> of its owner.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/ids.h"

namespace forestall::kernel {

class CgroupFreeze {
 public:
  // Freezes it; does not wait until all of its processes stand still. EBUSY: it is frozen by
  // another process, which then decides when it is thawed. ENOENT: cgroup v1, or the root.
  // `records` outlives it.
  static Result<CgroupFreeze> freeze(const CgroupDir& cgroup, const SettingRecords& records);
  CgroupFreeze(CgroupFreeze&&) noexcept = default;
  CgroupFreeze& operator=(CgroupFreeze&&) = delete;
  ~CgroupFreeze();

  // Thaws it and deletes the record. Does nothing if that was done, or if the cgroup was removed.
  [[nodiscard]] Result<void> thaw();

 private:
  CgroupFreeze(const SettingRecords& records, const CgroupDir& cgroup, UniqueFd file);

  const SettingRecords* records_;
  CgroupId cgroup_;
  std::string name_;
  UniqueFd file_;  // cgroup.freeze; closed: there is nothing to thaw
};

// Thaws what a killed agent has frozen (v2; does nothing on v1). Skips records of running
// processes. Returns one line for each cgroup that was thawed or could not be. A dry run writes
// nothing, and returns a line for each cgroup that stays frozen.
[[nodiscard]] std::vector<std::string> thaw_leftovers(const CgroupTree& tree,
                                                      const SettingRecords& records, bool dry_run);

}  // namespace forestall::kernel
