// SPDX-License-Identifier: Apache-2.0
// What a directory tree occupies, counted as `du --one-file-system` does and as kubelet does
// (cadvisor fs.GetDirUsage): st_blocks of every inode, the directory itself included, an inode with
// several names once, nothing behind a symbolic link and nothing on another device.
//
// The tree belongs to somebody who may be hostile to whoever measures it: it changes meanwhile, is
// deeper than there are descriptors, or has a dead FUSE server mounted inside. So the walk goes
// by openat() from directory to directory, holds a bounded number of them open, and asks for
// attributes without asking the server that has them (AT_STATX_DONT_SYNC).
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"
#include "model/filesystem.h"

namespace forestall::kernel {

struct TreeUsage {
  Bytes used;
  std::int64_t inodes = 0;
  // Why this is a lower bound: what could not be read. Empty: it is exact, up to what changed
  // while it was counted.
  std::string problem;
};

// Measures `path`, a directory or a single file, relative to `directory_fd` (AT_FDCWD for an
// absolute one). Whatever vanishes during the walk is passed over. ENOENT: there is nothing at
// `path`. ECANCELED: `cancelled` became true, which is looked at before every inode.
[[nodiscard]] Result<TreeUsage> measure_tree(int directory_fd, const std::string& path,
                                             const std::atomic<bool>& cancelled);

}  // namespace forestall::kernel
