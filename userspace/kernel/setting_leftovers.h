// SPDX-License-Identifier: Apache-2.0
// The start after a SIGKILL: undoes the settings whose records (kernel/setting_records.h) are left.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"

namespace forestall::kernel {

// Undoes one setting and drops its record. Returns what was done; empty: nothing is to be undone.
using UndoSetting = std::function<Result<std::string>(const CgroupDir& cgroup,
                                                      const SettingRecords::SavedSetting& left)>;

// Calls `undo` for each record whose cgroup exists; drops the other records (v2; does nothing on
// v1). Returns one line for each cgroup that was undone or failed. `failed` and `all_failed` are
// what such lines report, of one cgroup and of all.
[[nodiscard]] std::vector<std::string> undo_leftovers(const CgroupTree& tree,
                                                      const SettingRecords& records,
                                                      const UndoSetting& undo,
                                                      std::string_view failed,
                                                      std::string_view all_failed);

}  // namespace forestall::kernel
