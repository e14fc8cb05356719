// SPDX-License-Identifier: Apache-2.0
// A real cgroup for one test, with children. In tests, only such cgroups may be candidates, and
// only their processes are killed.
//
// Uses plain files instead of the product's code, so that it can verify that code.
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
  // The same with a path of the test's choice, e.g. "/kubepods". For VMs only: it must not exist
  // yet.
  explicit ScratchCgroup(std::string path);
  ScratchCgroup(const ScratchCgroup&) = delete;
  ScratchCgroup& operator=(const ScratchCgroup&) = delete;
  // Kills all processes in it, waits for their end, removes the groups.
  ~ScratchCgroup();

  [[nodiscard]] const std::string& path() const { return path_; }  // in the hierarchy
  // Makes a child group; returns its path in the hierarchy. `name` may be "a/b".
  std::string child(const std::string& name);
  // Removes a child group, which must be empty.
  void remove_child(const std::string& path);

  // memory.limit_in_bytes or memory.max.
  void limit(const std::string& path, Bytes limit) const;
  void add(const std::string& path, pid_t pid) const;
  [[nodiscard]] Bytes usage(const std::string& path) const;
  // The kernel's count of OOM kills in this group and its children.
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
