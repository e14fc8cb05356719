// SPDX-License-Identifier: Apache-2.0
// The disk usage of a directory tree, counted as by `du --one-file-system` and by kubelet (cadvisor
// fs.GetDirUsage): st_blocks of every inode, including the directory itself; an inode with several
// names counts once; symbolic links are not followed and other devices are left out.
//
// The owner of the tree may be hostile: the tree changes meanwhile, is deeper than the limit on
// descriptors, or contains a mount of a dead FUSE server. So the walk uses openat() from directory
// to directory, keeps a bounded number of them open, and reads attributes without a request to a
// filesystem's server (AT_STATX_DONT_SYNC).
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"
#include "model/filesystem.h"

namespace forestall::kernel {

struct TreeUsage {
  Bytes used;
  std::int64_t inodes = 0;
  // The first read that failed; the figures are then a lower bound. Empty: they are exact, except
  // for changes during the walk.
  std::string problem;
};

// Measures `path`, a directory or a single file, relative to `directory_fd` (AT_FDCWD for an
// absolute one). Skips entries that disappear during the walk. ENOENT: there is nothing at `path`.
// ECANCELED: `cancelled` became true; it is checked before every inode.
[[nodiscard]] Result<TreeUsage> measure_tree(int directory_fd, const std::string& path,
                                             const std::atomic<bool>& cancelled);

}  // namespace forestall::kernel
