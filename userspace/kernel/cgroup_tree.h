// SPDX-License-Identifier: Apache-2.0
// The mounted cgroup hierarchies of this host, and cgroups as open directories.
//
// Three shapes exist: v1 (memory controller on a v1 mount), v2 (unified), and hybrid (memory on a
// v1 mount, and a cgroup2 mount without controllers that still offers cgroup.kill, cgroup.events
// and memory.pressure for groups that exist at the same path in both).
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/ids.h"

namespace forestall::kernel {

enum class CgroupVersion : std::uint8_t { v1, v2 };

// Whether a call on a cgroup failed because the cgroup was removed.
[[nodiscard]] inline bool is_removed(const Error& failure) {
  return failure.code == ENODEV || failure.code == ENOENT;
}

// One cgroup in one hierarchy, held open. Reads use the descriptor, so a cgroup that was removed
// and created again at the same path is never mistaken for this one.
class CgroupDir {
 public:
  // `mount_fd` is the hierarchy's root directory; `path` is absolute within it ("/" is the root).
  static Result<CgroupDir> open(int mount_fd, std::string_view path);

  [[nodiscard]] CgroupId id() const { return id_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

  // Whole text of a control file. ENODEV: the cgroup was removed. ENOENT: this kernel has no such
  // file.
  [[nodiscard]] Result<std::string> read(const char* file) const;
  [[nodiscard]] Result<void> write(const char* file, std::string_view text) const;
  // O_CLOEXEC descriptor on a control file; `flags` as for openat.
  [[nodiscard]] Result<UniqueFd> open_file(const char* file, int flags) const;

  // Pids (thread group leaders) in this cgroup alone; list_processes() includes its descendants.
  [[nodiscard]] Result<std::vector<pid_t>> processes() const;
  // Names of the child cgroups, unsorted.
  [[nodiscard]] Result<std::vector<std::string>> children() const;
  // Whether the path still refers to this directory.
  [[nodiscard]] bool still_at_path(int mount_fd) const;

 private:
  CgroupDir(CgroupId id, std::string path, UniqueFd fd)
      : id_(id), path_(std::move(path)), fd_(std::move(fd)) {}
  CgroupId id_;
  std::string path_;
  UniqueFd fd_;
};

class CgroupTree {
 public:
  // Finds the hierarchies by libcgroup and checks them against statfs. A DaemonSet that mounts the
  // host's tree elsewhere, or a test, passes that directory as `cgroup_mount`; it is then used as
  // the host's /sys/fs/cgroup.
  static Result<CgroupTree> discover(const std::string& cgroup_mount = "/sys/fs/cgroup");

  // Version of the hierarchy that carries the memory controller.
  [[nodiscard]] CgroupVersion version() const { return version_; }
  [[nodiscard]] bool hybrid() const { return version_ == CgroupVersion::v1 && unified_.valid(); }
  [[nodiscard]] int memory_fd() const { return memory_.get(); }
  [[nodiscard]] const std::string& memory_mount() const { return memory_mount_; }
  // cgroup2 mount: the same as memory_fd() on v2, the controller-less one on hybrid, -1 on v1.
  [[nodiscard]] int unified_fd() const {
    return version_ == CgroupVersion::v2 ? memory_.get() : unified_.get();
  }

  [[nodiscard]] Result<CgroupDir> open(std::string_view path) const {
    return CgroupDir::open(memory_.get(), path);
  }
  // The directory at the same path in the cgroup2 mount. ENOENT: there is none.
  [[nodiscard]] Result<CgroupDir> open_unified(std::string_view path) const;

  // Identity of the cgroup at `path`. Opens nothing, so it works without a free descriptor.
  [[nodiscard]] Result<CgroupId> id_at(std::string_view path) const;

  // Paths of all existing cgroups that match the glob; `*` and `?` do not match '/'. Sorted.
  [[nodiscard]] Result<std::vector<std::string>> match(const std::string& glob) const;
  // The same into `found`. After an error the search continues elsewhere, and the first error is
  // returned.
  [[nodiscard]] Result<void> match(const std::string& glob, std::vector<std::string>& found) const;
  // Path of a process in the memory hierarchy, from /proc/PID/cgroup.
  [[nodiscard]] Result<std::string> path_of(pid_t pid) const;

 private:
  CgroupVersion version_ = CgroupVersion::v2;
  UniqueFd memory_;
  std::string memory_mount_;
  UniqueFd unified_;
};

// Path in the memory hierarchy from the text of /proc/PID/cgroup.
[[nodiscard]] Result<std::string> parse_cgroup_path(std::string_view text, CgroupVersion version);

// Whether `path` matches `glob` (fnmatch with FNM_PATHNAME).
[[nodiscard]] bool glob_matches(const std::string& glob, const std::string& path);

}  // namespace forestall::kernel
