// SPDX-License-Identifier: Apache-2.0
// Identities. A path or a bare pid can be reused; these identify one object over its life.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>

namespace forestall {

// Inode number of a cgroup's directory in the hierarchy that carries the memory controller; equal
// to the kernel's kernfs node id, which is what the BPF programs report. 0 is no cgroup.
struct CgroupId {
  std::uint64_t inode = 0;
  friend constexpr auto operator<=>(CgroupId, CgroupId) = default;
};

// A process: its pid in the host's pid namespace and its start time (field 22 of /proc/PID/stat,
// in clock ticks since boot).
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  friend constexpr auto operator<=>(ProcessId, ProcessId) = default;
};

}  // namespace forestall
