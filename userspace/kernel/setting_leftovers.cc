// SPDX-License-Identifier: Apache-2.0
#include "kernel/setting_leftovers.h"

#include <fmt/format.h>

namespace forestall::kernel {
namespace {

Result<std::string> undo_leftover(const CgroupTree& tree, const SettingRecords& records,
                                  const UndoSetting& undo,
                                  const SettingRecords::SavedSetting& left) {
  const auto cgroup = tree.open(left.path);
  // What cannot be opened for another reason than its removal still has the setting.
  if (!cgroup && !is_removed(cgroup.error())) return cgroup.error();
  if (!cgroup || cgroup->id() != left.cgroup) {
    records.drop(left.cgroup);
    return std::string();
  }
  return undo(*cgroup, left);
}

}  // namespace

std::vector<std::string> undo_leftovers(const CgroupTree& tree, const SettingRecords& records,
                                        const UndoSetting& undo, std::string_view failed,
                                        std::string_view all_failed) {
  std::vector<std::string> log;
  if (tree.version() != CgroupVersion::v2) return log;
  const auto all = records.all();
  if (!all) {
    log.push_back(fmt::format("{}: {}", all_failed, all.error().text()));
    return log;
  }
  for (const std::string& each : all->unreadable) {
    log.push_back(fmt::format("{}: {}", failed, each));
  }
  for (const auto& left : all->records) {
    const auto done = undo_leftover(tree, records, undo, left);
    if (!done) {
      log.push_back(fmt::format("{}: {}: {}", left.path, failed, done.error().text()));
    } else if (!done->empty()) {
      log.push_back(fmt::format("{}: {}", left.path, *done));
    }
  }
  return log;
}

}  // namespace forestall::kernel
