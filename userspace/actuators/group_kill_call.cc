// SPDX-License-Identifier: Apache-2.0
#include "actuators/group_kill_call.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "kernel/cgroup_processes.h"

namespace forestall::actuators {

std::unique_ptr<const kernel::CgroupDir> find_same_group(const kernel::CgroupTree& tree,
                                                         const std::string& path,
                                                         const std::vector<pid_t>& present,
                                                         bool exactly) {
  auto group = tree.open_unified(path);
  if (!group.ok()) return nullptr;
  const auto members = kernel::list_processes(*group);
  if (!members.ok() || members->failure || members->pids.empty()) return nullptr;
  if (!std::ranges::includes(present, members->pids)) return nullptr;
  if (exactly && members->pids != present) return nullptr;
  return std::make_unique<const kernel::CgroupDir>(std::move(*group));
}

ReapReport GroupKillCall::run(std::uint64_t ticket) {
  if (withdrawn) return {ticket, ReapResult::failed, ECANCELED};
  std::unique_ptr<const kernel::CgroupDir> same;
  if (!directory) same = find_same_group(tree, path, present, exactly);
  if (!directory && !same) return {ticket, ReapResult::other, 0};
  const kernel::CgroupDir& group = directory ? *directory : *same;
  const int code = kills ? kill(group) : 0;
  if (auto opened = group.open_file("cgroup.events", O_RDONLY)) events = std::move(*opened);
  if (code == 0) return {ticket, ReapResult::freed, 0};
  return {ticket, code == ENODEV ? ReapResult::gone : ReapResult::failed, code};
}

// A signal interrupts it only when the pool stops.
int GroupKillCall::kill(const kernel::CgroupDir& group) const {
  const auto file = group.open_file("cgroup.kill", O_WRONLY);
  if (!file.ok()) return file.error().code;
  if (withdrawn) return ECANCELED;
  if (SystemClock().now() > not_after) return ETIME;
  const ssize_t size = ::write(file->get(), "1", 1);
  if (size < 0) return errno;
  return size == 1 ? 0 : EIO;
}

}  // namespace forestall::actuators
