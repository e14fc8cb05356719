// SPDX-License-Identifier: Apache-2.0
// Directories are listed one at a time by full path, so a deep tree needs no stack and a wide one
// no descriptors. kernfs returns the inode number with each entry (fs/kernfs/dir.c
// kernfs_fop_readdir), so no lookup is needed.
#include "sources/cgroup_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::sources {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

Result<Directory> open_directory(int mount_fd, const std::string& path) {
  const std::string relative = path == "/" ? "." : path.substr(1);
  UniqueFd fd(::openat(mount_fd, relative.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("open", path);
  DIR* directory = ::fdopendir(fd.get());
  if (directory == nullptr) return errno_error("fdopendir", path);
  (void)fd.release();
  return Directory(directory);
}

}  // namespace

Result<void> CgroupNames::walk(MonotonicTime now) {
  walked_ = now;
  struct stat root {};
  if (::fstat(tree_.memory_fd(), &root) != 0) return errno_error("stat", tree_.memory_mount());
  std::unordered_set<std::uint64_t> found{root.st_ino};
  put({root.st_ino}, "/");
  std::vector<std::string> left{"/"};
  while (!left.empty()) {
    const std::string path = std::move(left.back());
    left.pop_back();
    const auto directory = open_directory(tree_.memory_fd(), path);
    if (!directory) {
      // Removed during the walk; or too deep to be opened by its path, as a tenant decides.
      const int code = directory.error().code;
      if ((code == ENOENT || code == ENAMETOOLONG) && path != "/") continue;
      return directory.error();
    }
    while (const dirent* entry = ::readdir(directory->get())) {
      const std::string_view name = entry->d_name;
      if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
      std::string child = path == "/" ? "/" : path + "/";
      child.append(name);
      put({entry->d_ino}, child);
      found.insert(entry->d_ino);
      left.push_back(std::move(child));
    }
  }
  std::vector<CgroupId> gone;
  for (const auto& [id, name] : names_) {
    if (!name.removed && !found.contains(id)) gone.push_back({id});
  }
  for (const CgroupId id : gone) remove(id);
  return {};
}

void CgroupNames::put(CgroupId id, std::string_view path) {
  Name& name = names_[id.inode];
  // A cgroup that was removed before its name was reported stays removed.
  if (name.path != path) name.path = path;
}

void CgroupNames::remove(CgroupId id) {
  Name& name = names_[id.inode];
  if (name.removed) return;
  name.removed = true;
  removed_.push_back(id);
  if (removed_.size() <= kRemovedMax) return;
  names_.erase(removed_.front().inode);
  removed_.pop_front();
}

std::string_view CgroupNames::find(CgroupId id) const {
  const auto found = names_.find(id.inode);
  return found == names_.end() ? std::string_view() : std::string_view(found->second.path);
}

std::string_view CgroupNames::name(CgroupId id, MonotonicTime now) {
  if (id == CgroupId{}) return {};
  const std::string_view known = find(id);
  if (!known.empty() || now - walked_ < kWalkEvery) return known;
  // If the walk fails, the id has no name.
  (void)walk(now);
  return find(id);
}

bool CgroupNames::is_removed(CgroupId id) const {
  const auto found = names_.find(id.inode);
  return found != names_.end() && found->second.removed;
}

void CgroupNames::visit(const std::function<void(CgroupId, const std::string& path)>& visit) const {
  for (const auto& [id, name] : names_) {
    if (!name.removed && !name.path.empty()) visit({id}, name.path);
  }
}

}  // namespace forestall::sources
