// SPDX-License-Identifier: Apache-2.0
// A real cgroup made for one test, with children made inside it. Only such cgroups may ever be
// candidates in a test, and only their processes are ended.
//
// Deliberately written on plain files, not on the product's code: it is what that code is held
// against.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace forestall::test {

// Where the memory controller is mounted on this machine, and where cgroup2 is ("" if nowhere).
struct Mounts {
  std::string memory;
  std::string unified;
  bool v1 = false;
};
[[nodiscard]] const Mounts& mounts();

class ScratchCgroup {
 public:
  // A new top-level group "/forestall-test-<pid>-<n>" in the memory hierarchy and, on a hybrid
  // host, in the cgroup2 mount; on v2 its children get the memory and pids controllers.
  ScratchCgroup();
  // The same with a path of the test's choice, e.g. "/kubepods". Only for machines of its own
  // (VMs): it must not exist yet.
  explicit ScratchCgroup(std::string path);
  ScratchCgroup(const ScratchCgroup&) = delete;
  ScratchCgroup& operator=(const ScratchCgroup&) = delete;
  // Kills what is left inside, waits for it, removes the groups.
  ~ScratchCgroup();

  [[nodiscard]] const std::string& path() const { return path_; }  // in the hierarchy
  // Makes a child group; returns its path in the hierarchy. `name` may be "a/b".
  std::string child(const std::string& name);
  // Removes a child group made before; it must be empty.
  void remove_child(const std::string& path);

  // memory.limit_in_bytes or memory.max.
  void limit(const std::string& path, Bytes limit) const;
  void add(const std::string& path, pid_t pid) const;
  [[nodiscard]] Bytes usage(const std::string& path) const;
  // The kernel's own count of OOM kills in this group and below.
  [[nodiscard]] std::uint64_t oom_kills(const std::string& path) const;
  [[nodiscard]] std::vector<pid_t> processes(const std::string& path) const;

  // Text of a control file in the memory hierarchy / in the cgroup2 mount.
  [[nodiscard]] std::string read(const std::string& path, const std::string& file) const;
  void write(const std::string& path, const std::string& file, const std::string& text) const;
  [[nodiscard]] std::string directory(const std::string& path) const;
  [[nodiscard]] std::string unified_directory(const std::string& path) const;

 private:
  std::string path_;
  std::vector<std::string> paths_;  // all groups made, parents first
};

}  // namespace forestall::test
