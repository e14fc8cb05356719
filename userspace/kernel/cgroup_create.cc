// SPDX-License-Identifier: Apache-2.0
#include "kernel/cgroup_create.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libcgroup.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "base/parse.h"

namespace forestall::kernel {
namespace {

struct FreeGroup {
  void operator()(cgroup* group) const { ::cgroup_free(&group); }
};
using Group = std::unique_ptr<cgroup, FreeGroup>;

// libcgroup's error texts are off by one from 50023 on (ECGEOF reads "Failed to parse config
// file"), so the message has the number too. ECGOTHER means the errno of a system call.
Error libcgroup_error(std::string_view operation, std::string_view path, int failure) {
  if (failure == ECGOTHER) {
    return Error{::cgroup_get_last_errno(), fmt::format("libcgroup: {} {}", operation, path)};
  }
  return error(fmt::format("libcgroup: {} {}: {} ({})", operation, path, ::cgroup_strerror(failure),
                           failure));
}

Result<void> check_mount(const CgroupTree& tree) {
  if (const int failure = ::cgroup_init(); failure != 0) {
    return libcgroup_error("find", "cgroup mounts", failure);
  }
  char* text = nullptr;
  if (const int failure = ::cgroup_get_subsys_mount_point("memory", &text); failure != 0) {
    return libcgroup_error("find", "memory controller", failure);
  }
  const std::string mount = text;
  ::free(text);
  if (mount == tree.memory_mount()) return {};
  return Error{ENODEV, fmt::format("libcgroup uses {}, not {}", mount, tree.memory_mount())};
}

// libcgroup turns the controller on in every ancestor of the new group except the root.
Result<void> enable_in_root(const CgroupTree& tree) {
  const auto root = TRY(tree.open("/"));
  return root.write("cgroup.subtree_control", "+memory");
}

Result<void> create_by_libcgroup(const CgroupTree& tree, const std::string& path,
                                 std::optional<Bytes> limit) {
  const Group group(::cgroup_new_cgroup(path.substr(1).c_str()));
  if (!group) return Error{ENOMEM, fmt::format("libcgroup: new {}", path)};
  auto* memory = ::cgroup_add_controller(group.get(), "memory");
  if (memory == nullptr) return error(fmt::format("libcgroup: no memory controller for {}", path));
  if (limit) {
    const char* file = tree.version() == CgroupVersion::v1 ? "memory.limit_in_bytes" : "memory.max";
    const auto value = std::to_string(limit->count);
    if (const int failure = ::cgroup_add_value_string(memory, file, value.c_str()); failure != 0) {
      return libcgroup_error("limit", path, failure);
    }
  }
  const int failure = ::cgroup_create_cgroup(group.get(), /* ignore_ownership= */ 1);
  if (failure != 0) return libcgroup_error("create", path, failure);
  return {};
}

Result<void> create_unified(const CgroupTree& tree, const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const auto part = path.substr(1, end == std::string::npos ? end : end - 1);
    if (::mkdirat(tree.unified_fd(), part.c_str(), 0755) != 0 && errno != EEXIST) {
      return errno_error("create in cgroup2 mount", part);
    }
    if (end == std::string::npos) return {};
  }
}

Result<void> remove_below(int mount_fd, const std::string& path) {
  const auto group = CgroupDir::open(mount_fd, path);
  if (!group) {
    if (group.error().code == ENOENT) return {};
    return group.error();
  }
  for (const auto& name : TRY(group->children())) TRY(remove_below(mount_fd, path + "/" + name));
  if (::unlinkat(mount_fd, path.c_str() + 1, AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return errno_error("remove cgroup", path);
  }
  return {};
}

Result<void> check_path(const std::string& path) {
  if (path.size() > 1 && path.front() == '/' && path.back() != '/' &&
      path.find("//") == std::string::npos && (path + "/").find("/../") == std::string::npos &&
      (path + "/").find("/./") == std::string::npos) {
    return {};
  }
  return Error{EINVAL, fmt::format("cgroup path \"{}\"", path)};
}

}  // namespace

Result<void> create_group(const CgroupTree& tree, std::string_view path,
                          std::optional<Bytes> limit) {
  const std::string name(path);
  TRY(check_path(name));
  TRY(check_mount(tree));
  if (tree.version() == CgroupVersion::v2) TRY(enable_in_root(tree));
  TRY(create_by_libcgroup(tree, name, limit));
  if (tree.hybrid()) TRY(create_unified(tree, name));
  return {};
}

Result<void> delete_group(const CgroupTree& tree, std::string_view path) {
  const std::string name(path);
  TRY(check_path(name));
  TRY(remove_below(tree.memory_fd(), name));
  if (tree.hybrid()) TRY(remove_below(tree.unified_fd(), name));
  return {};
}

}  // namespace forestall::kernel
