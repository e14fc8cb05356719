// SPDX-License-Identifier: Apache-2.0
#include "kernel/cgroup_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <sys/stat.h>

#include <array>
#include <cstring>

namespace forestall::kernel {
namespace {

constexpr int kKernfsId = 0xfe;  // FILEID_KERNFS, include/linux/exportfs.h

// struct file_handle followed by the id.
struct Handle {
  unsigned int bytes = sizeof(std::uint64_t);
  int type = kKernfsId;
  std::uint64_t id = 0;
};
static_assert(offsetof(Handle, id) == sizeof(file_handle));

Result<std::string> path_of(int fd) {
  std::array<char, PATH_MAX> path;
  const auto link = fmt::format("/proc/self/fd/{}", fd);
  const auto size = ::readlink(link.c_str(), path.data(), path.size());
  if (size < 0) return errno_error("readlink", link);
  return std::string(path.data(), static_cast<std::size_t>(size));
}

}  // namespace

Result<std::string> cgroup_path(const CgroupTree& tree, CgroupId id) {
  const auto object = fmt::format("cgroup {}", id.inode);
  // open_by_handle_at() refuses an O_PATH descriptor, which the tree's own is.
  const UniqueFd mount(::openat(tree.memory_fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!mount) return errno_error("open", tree.memory_mount());
  Handle handle;
  handle.id = id.inode;
  const UniqueFd cgroup(::open_by_handle_at(mount.get(), reinterpret_cast<file_handle*>(&handle),
                                            O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!cgroup) return errno_error("open by handle", object);
  const auto root = TRY(path_of(mount.get()));
  const auto path = TRY(path_of(cgroup.get()));
  if (path == root) return std::string("/");
  const auto prefix = root + "/";
  // A removed cgroup reads as "/a (deleted)", which can also be the name of an existing one.
  if (!path.starts_with(prefix)) return Error{ESTALE, object};
  auto found = path.substr(root.size());
  const auto there = tree.open(found);
  if (!there || there->id() != id) return Error{ESTALE, object};
  return found;
}

// The root of each hierarchy has the inode 1 (fs/kernfs/dir.c kernfs_create_root()).
bool is_mounted_whole(const CgroupTree& tree) {
  struct stat root {};
  return ::fstat(tree.memory_fd(), &root) == 0 && root.st_ino == 1;
}

}  // namespace forestall::kernel
