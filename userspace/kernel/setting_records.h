// SPDX-License-Identifier: Apache-2.0
// Where the agent records which settings of cgroups it has made, for the start after a SIGKILL.
// Each control file has a directory of its own.
//
// The next start writes to the control file what a record holds, so only the agent's user may be
// able to write one. An extended attribute of the cgroup is not such a place: the owner of a
// delegated cgroup can set user.*, and trusted.* needs CAP_SYS_ADMIN, which nothing else in the
// agent needs. Records are files of the run directory, which remains after a crash
// (RuntimeDirectoryPreserve in the systemd unit). Each names the boot and the inode of its cgroup.
// The kernel does not reuse an inode within a boot, so no record applies to a cgroup that was
// recreated at the same path.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/ids.h"

namespace forestall::kernel {

// Thread rule: any thread; calls for one cgroup come from one thread at a time, except claim().
class SettingRecords {
 public:
  struct SavedSetting {
    CgroupId cgroup;
    std::string path;
    std::string text;
  };

  // The first write() creates `directory`, with mode 0700. Empty: write() fails, so that no setting
  // is made that could not be undone.
  explicit SettingRecords(std::string directory = "") : directory_(std::move(directory)) {}

  // write(), unless the cgroup has a record whose text `is_anothers` is true for: EBUSY. Of several
  // threads that claim one cgroup, one is the first. Waits for file operations of the others only.
  [[nodiscard]] Result<void> claim(
      const SavedSetting& record,
      const std::function<bool(std::string_view text)>& is_anothers) const;
  // Replaces the record of `cgroup`, all or nothing. Refuses a directory of another user, or one
  // that other users can write to, and a path with a line break, which a record cannot hold.
  [[nodiscard]] Result<void> write(const SavedSetting& record) const;
  // The text of its record; nothing: there is none of this boot.
  [[nodiscard]] Result<std::optional<std::string>> read(CgroupId cgroup) const;
  // Does nothing if there is none.
  void drop(CgroupId cgroup) const;
  // All of this boot; deletes those of earlier boots, whose cgroups do not exist any more.
  struct Found {
    std::vector<SavedSetting> records;
    // One line for each record that cannot be read. It stays, and keeps no other from its undo.
    std::vector<std::string> unreadable;
  };
  [[nodiscard]] Result<Found> all() const;

 private:
  [[nodiscard]] Result<UniqueFd> open_directory() const;
  [[nodiscard]] Result<std::optional<SavedSetting>> read_in(int directory, CgroupId cgroup) const;

  std::string directory_;
};

}  // namespace forestall::kernel
