// SPDX-License-Identifier: Apache-2.0
#include "sources/cgroup_walk.h"

#include <climits>

#include "base/parse.h"
#include "kernel/cgroup_descent.h"

namespace forestall::sources {
namespace {

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

// A tenant decides how long the paths of its tree are, and the list has one for each group.
std::string bounded(const std::string& path) {
  if (path.size() < PATH_MAX) return path;
  return path.substr(0, path.rfind('/', PATH_MAX - 1)) + "/...";
}

}  // namespace

Result<void> walk_memory_cgroups(const kernel::CgroupTree& tree, const std::string& top,
                                 std::vector<OomCgroup>& found, const VisitMemoryCgroup& visit) {
  found.clear();
  std::vector<std::size_t> above;  // the ancestors of the visited group, as indices
  const auto add = [&](const kernel::VisitedGroup& visited) -> Result<bool> {
    const auto group = TRY(read_oom_group(tree, visited.group));
    if (!group) return false;
    above.resize(visited.depth);
    const auto parent = above.empty() ? std::nullopt : std::optional(above.back());
    above.push_back(found.size());
    found.push_back({visited.group.id(), bounded(visited.path), parent, *group});
    if (visit) TRY(visit(visited.group));
    return true;
  };
  const auto directory = TRY(tree.open(top));
  TRY(kernel::visit_groups_as_created(directory, add));
  if (found.empty()) return Error{ENOENT, top + ": no memory cgroup"};
  return {};
}

}  // namespace forestall::sources
