// SPDX-License-Identifier: Apache-2.0
// Directories are opened one at a time by full path: a thousand siblings must not take a thousand
// descriptors, nor a deep tree the stack.
#include "sources/cgroup_walk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/parse.h"

namespace forestall::sources {
namespace {

struct Place {
  std::string path;
  std::optional<std::size_t> parent;
};

struct Child {
  std::uint64_t inode = 0;
  std::string name;
};

bool gone(const Error& failure) {
  return failure.code == ENOENT || failure.code == ENODEV;
}

// Leaf directories need not be listed: like most file systems, kernfs counts ".", the name in the
// parent and each subdirectory's "..".
bool has_children(const kernel::CgroupDir& directory) {
  struct stat status {};
  return ::fstat(directory.fd(), &status) != 0 || status.st_nlink != 2;
}

Result<std::vector<Child>> children_as_created(const kernel::CgroupDir& directory) {
  std::vector<Child> children;
  if (!has_children(directory)) return children;
  for (auto& name : TRY(directory.children())) {
    struct stat status {};
    if (::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    children.push_back({status.st_ino, std::move(name)});
  }
  std::ranges::sort(children, {}, &Child::inode);
  return children;
}

// Nullopt: the memory controller is off there.
Result<std::optional<bool>> read_oom_group(const kernel::CgroupTree& tree,
                                           const kernel::CgroupDir& directory) {
  if (tree.version() == kernel::CgroupVersion::v1) return std::optional(false);
  if (directory.path() == "/") return std::optional(false);
  const auto text = directory.read("memory.oom.group");
  if (!text && text.error().code == ENOENT) return std::optional<bool>();
  if (!text) return text.error();
  return std::optional(trim(*text) == "1");
}

// Appends the cgroup at `place` and returns its children to visit, the oldest last.
Result<std::vector<Place>> visit(const kernel::CgroupTree& tree, const Place& place,
                                 std::vector<OomCgroup>& found) {
  const auto directory = TRY(tree.open(place.path));
  const auto group = TRY(read_oom_group(tree, directory));
  std::vector<Place> below;
  if (!group) return below;
  auto children = TRY(children_as_created(directory));
  const std::size_t index = found.size();
  found.push_back({directory.id(), place.path, place.parent, *group});
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    below.push_back({(place.path == "/" ? "/" : place.path + "/") + child->name, index});
  }
  return below;
}

}  // namespace

Result<void> walk_memory_cgroups(const kernel::CgroupTree& tree, const std::string& top,
                                 std::vector<OomCgroup>& found) {
  found.clear();
  std::vector<Place> left{{top, std::nullopt}};
  while (!left.empty()) {
    const Place place = std::move(left.back());
    left.pop_back();
    const auto below = visit(tree, place, found);
    if (below) {
      left.insert(left.end(), below->begin(), below->end());
    } else if (!place.parent || !gone(below.error())) {
      return below.error();
    }
  }
  if (found.empty()) return Error{ENOENT, top + ": no memory cgroup"};
  return {};
}

}  // namespace forestall::sources
