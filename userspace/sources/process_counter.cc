// SPDX-License-Identifier: Apache-2.0
#include "sources/process_counter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>

namespace forestall::sources {
namespace {

constexpr int kDepthMax = 64;  // as in kernel/cgroup_tree.cc

bool gone(const Error& failure) {
  return failure.code == ENOENT || failure.code == ENODEV;
}

Result<nlink_t> links_of(int directory, std::string_view path) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) return errno_error("stat cgroup", path);
  return status.st_nlink;
}

}  // namespace

ProcessCounter::ProcessCounter(const kernel::CgroupDir& cgroup) {
  UniqueFd own(::openat(cgroup.fd(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (own) complete_ = open_below(std::move(own), cgroup.path(), 0).ok();
}

Result<void> ProcessCounter::open_below(UniqueFd directory, const std::string& path, int depth) {
  if (depth > kDepthMax) return Error{ELOOP, fmt::format("walk {}", path)};
  const int at = directory.get();
  // Before the children are listed: one that appears in between makes the count differ later.
  const auto links = TRY(links_of(at, path));
  auto processes = TRY(kernel::HeldFile::open(at, "cgroup.procs", path + "/cgroup.procs"));
  const auto listed = TRY(kernel::CgroupDir::open(at, "/"));
  struct statfs filesystem {};
  const bool v1 = ::fstatfs(at, &filesystem) == 0 && filesystem.f_type == CGROUP_SUPER_MAGIC;
  groups_.push_back({std::move(directory), links, std::move(processes), v1});
  for (const auto& name : TRY(listed.children())) {
    UniqueFd child(::openat(at, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const auto child_path = path + "/" + name;
    const auto opened = child ? open_below(std::move(child), child_path, depth + 1)
                              : Result<void>(errno_error("open cgroup", child_path));
    if (!opened) return opened.error();
  }
  return {};
}

Result<std::string_view> ProcessCounter::read_list(const Group& group, std::string& buffer) {
  if (!group.list_is_kept) return group.processes.read(buffer);
  const auto fresh =
      TRY(kernel::HeldFile::open(group.directory.get(), "cgroup.procs", group.processes.name()));
  return fresh.read(buffer);
}

Result<std::uint64_t> ProcessCounter::count_held(std::string& buffer) const {
  std::uint64_t count = 0;
  for (const auto& group : groups_) {
    const auto& name = group.processes.name();
    if (TRY(links_of(group.directory.get(), name)) != group.links) {
      return Error{ENODEV, fmt::format("{}: groups were added or removed", name)};
    }
    const auto text = read_list(group, buffer);
    // A threaded group's processes are listed by the domain above it.
    if (!text && text.error().code == EOPNOTSUPP) continue;
    if (!text) return text.error();
    count += static_cast<std::uint64_t>(std::count(text->begin(), text->end(), '\n'));
  }
  return count;
}

Result<std::uint64_t> ProcessCounter::count(const kernel::CgroupDir& cgroup, std::string& buffer) {
  Error failure{ENODEV, fmt::format("count processes of {}", cgroup.path())};
  // A second change can fall between opening and counting; a third time is not worth waiting for.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (complete_) {
      const auto held = count_held(buffer);
      if (held || !gone(held.error())) return held;
      failure = held.error();
    }
    groups_.clear();
    complete_ = false;
    UniqueFd own(::openat(cgroup.fd(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!own) return errno_error("open cgroup", cgroup.path());
    const auto opened = open_below(std::move(own), cgroup.path(), 0);
    complete_ = opened.ok();
    if (!opened) failure = opened.error();
    if (!opened && !gone(failure)) return failure;
  }
  return failure;
}

}  // namespace forestall::sources
