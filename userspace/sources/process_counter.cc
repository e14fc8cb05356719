// SPDX-License-Identifier: Apache-2.0
#include "sources/process_counter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>

#include "kernel/cgroup_processes.h"

namespace forestall::sources {
namespace {

Result<nlink_t> links_of(int directory, std::string_view path) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) return errno_error("stat cgroup", path);
  return status.st_nlink;
}

UniqueFd open_group(int above, const char* name) {
  return UniqueFd(::openat(above, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::uint64_t lines_of(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

ProcessCounter::ProcessCounter(const kernel::CgroupDir& cgroup) {
  static_cast<void>(open_all(cgroup));
}

Result<void> ProcessCounter::open_all(const kernel::CgroupDir& cgroup) {
  groups_.clear();
  complete_ = too_many_ = false;
  UniqueFd own = open_group(cgroup.fd(), ".");
  if (!own) return errno_error("open cgroup", cgroup.path());
  const auto opened = open_below(std::move(own), cgroup.path());
  complete_ = opened.ok();
  if (complete_) return {};
  too_many_ = opened.error().code == E2BIG;
  groups_.clear();
  return opened.error();
}

// kGroupsMax bounds the depth, too.
Result<void> ProcessCounter::open_below(UniqueFd directory, const std::string& path) {
  if (groups_.size() >= kGroupsMax) return Error{E2BIG, fmt::format("hold {}", path)};
  const int at = directory.get();
  // Read before the children are listed, so that a child added in between makes the count differ
  // later.
  const auto links = TRY(links_of(at, path));
  auto processes = TRY(kernel::HeldFile::open(at, "cgroup.procs", path + "/cgroup.procs"));
  const auto listed = TRY(kernel::CgroupDir::open(at, "/"));
  struct statfs filesystem {};
  const bool v1 = ::fstatfs(at, &filesystem) == 0 && filesystem.f_type == CGROUP_SUPER_MAGIC;
  groups_.push_back({std::move(directory), links, std::move(processes), v1});
  for (const auto& name : TRY(listed.children())) {
    UniqueFd child = open_group(at, name.c_str());
    const auto child_path = path + "/" + name;
    const auto opened = child ? open_below(std::move(child), child_path)
                              : Result<void>(errno_error("open cgroup", child_path));
    if (!opened) return opened.error();
  }
  return {};
}

Result<std::uint64_t> ProcessCounter::count_group(const Group& group, std::string& buffer) {
  if (group.list_is_kept) {
    const auto fresh = TRY(kernel::CgroupDir::open(group.directory.get(), "/"));
    kernel::ProcessList list;
    TRY(kernel::processes_led_in(fresh, list));
    return std::uint64_t{list.pids.size()};
  }
  const auto text = group.processes.read(buffer);
  // The domain above a threaded group lists its processes.
  if (!text && text.error().code == EOPNOTSUPP) return std::uint64_t{0};
  if (!text) return text.error();
  return lines_of(*text);
}

Result<std::uint64_t> ProcessCounter::count_held(std::string& buffer) const {
  std::uint64_t count = 0;
  for (const auto& group : groups_) {
    const auto& name = group.processes.name();
    if (TRY(links_of(group.directory.get(), name)) != group.links) {
      return Error{ENODEV, fmt::format("{}: groups were added or removed", name)};
    }
    count += TRY(count_group(group, buffer));
  }
  return count;
}

// Used while there are too many groups; once there are far fewer, they are held again.
Result<std::uint64_t> ProcessCounter::count_by_walk(const kernel::CgroupDir& cgroup) {
  const auto list = TRY(kernel::list_processes(cgroup));
  if (list.failure) return *list.failure;
  too_many_ = list.groups > kGroupsMax / 2;
  return std::uint64_t{list.pids.size()};
}

Result<std::uint64_t> ProcessCounter::count(const kernel::CgroupDir& cgroup, std::string& buffer) {
  Error failure{ENODEV, fmt::format("count processes of {}", cgroup.path())};
  // A second change can happen between opening and counting; a third attempt is not worth its time.
  for (int attempt = 0; attempt < 3 && !too_many_; ++attempt) {
    if (complete_) {
      const auto held = count_held(buffer);
      if (held || !kernel::is_removed(held.error())) return held;
      failure = held.error();
    }
    const auto opened = open_all(cgroup);
    if (!opened) failure = opened.error();
    if (!opened && !too_many_ && !kernel::is_removed(failure)) return failure;
  }
  if (too_many_) return count_by_walk(cgroup);
  return failure;
}

}  // namespace forestall::sources
