// SPDX-License-Identifier: Apache-2.0
// What the memory of a cgroup or of the node consists of.
#pragma once

#include <optional>

#include "base/bytes.h"

namespace forestall {

// Nullopt: the kernel does not report it there.
struct MemoryKinds {
  std::optional<Bytes> anon;    // of processes; it ends with them
  std::optional<Bytes> file;    // page cache of files, without shmem
  std::optional<Bytes> shmem;   // tmpfs, memfd, System V segments: may outlive every process
  std::optional<Bytes> kernel;  // slab (dentries, inodes), stacks, page tables

  friend bool operator==(const MemoryKinds&, const MemoryKinds&) = default;
};

}  // namespace forestall
