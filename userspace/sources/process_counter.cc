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

UniqueFd open_group(int above, const char* name) {
  return UniqueFd(::openat(above, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::uint64_t lines_of(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// Result of a walk. A group below its root that is removed during the walk has no processes.
struct Walked {
  std::uint64_t processes = 0;
  std::size_t groups = 0;
};

// Holds two descriptors per level.
Result<void> walk(const UniqueFd& directory, const std::string& path, int depth,
                  std::string& buffer, Walked& walked) {
  if (depth > kDepthMax) return Error{ELOOP, fmt::format("walk {}", path)};
  ++walked.groups;
  {
    const auto processes =
        TRY(kernel::HeldFile::open(directory.get(), "cgroup.procs", path + "/cgroup.procs"));
    const auto text = processes.read(buffer);
    // The domain above a threaded group lists its processes.
    if (!text && text.error().code != EOPNOTSUPP) return text.error();
    if (text) walked.processes += lines_of(*text);
  }
  const auto listed = TRY(kernel::CgroupDir::open(directory.get(), "/"));
  for (const auto& name : TRY(listed.children())) {
    const UniqueFd child = open_group(directory.get(), name.c_str());
    const auto child_path = path + "/" + name;
    const auto below = child ? walk(child, child_path, depth + 1, buffer, walked)
                             : Result<void>(errno_error("open cgroup", child_path));
    if (!below && !gone(below.error())) return below.error();
  }
  return {};
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
  const auto opened = open_below(std::move(own), cgroup.path(), 0);
  complete_ = opened.ok();
  if (complete_) return {};
  too_many_ = opened.error().code == E2BIG;
  groups_.clear();
  return opened.error();
}

Result<void> ProcessCounter::open_below(UniqueFd directory, const std::string& path, int depth) {
  if (depth > kDepthMax) return Error{ELOOP, fmt::format("walk {}", path)};
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
    // The domain above a threaded group lists its processes.
    if (!text && text.error().code == EOPNOTSUPP) continue;
    if (!text) return text.error();
    count += lines_of(*text);
  }
  return count;
}

// Used while there are too many groups; once there are far fewer, they are held again.
Result<std::uint64_t> ProcessCounter::count_by_walk(const kernel::CgroupDir& cgroup,
                                                    std::string& buffer) {
  const UniqueFd own = open_group(cgroup.fd(), ".");
  if (!own) return errno_error("open cgroup", cgroup.path());
  Walked walked;
  TRY(walk(own, cgroup.path(), 0, buffer, walked));
  too_many_ = walked.groups > kGroupsMax / 2;
  return walked.processes;
}

Result<std::uint64_t> ProcessCounter::count(const kernel::CgroupDir& cgroup, std::string& buffer) {
  Error failure{ENODEV, fmt::format("count processes of {}", cgroup.path())};
  // A second change can happen between opening and counting; a third attempt is not worth its time.
  for (int attempt = 0; attempt < 3 && !too_many_; ++attempt) {
    if (complete_) {
      const auto held = count_held(buffer);
      if (held || !gone(held.error())) return held;
      failure = held.error();
    }
    const auto opened = open_all(cgroup);
    if (!opened) failure = opened.error();
    if (!opened && !too_many_ && !gone(failure)) return failure;
  }
  if (too_many_) return count_by_walk(cgroup, buffer);
  return failure;
}

}  // namespace forestall::sources
