// SPDX-License-Identifier: Apache-2.0
#include "actuators/members.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/parse.h"
#include "kernel/cgroup_processes.h"
#include "kernel/held_file.h"

namespace forestall::actuators {
namespace {

struct CloseStream {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

// Whether the thread is in a protected group. One whose group cannot be read may be.
bool is_protected(pid_t thread, const ProtectedGroups& groups) {
  const std::string name = "/proc/" + std::to_string(thread) + "/cgroup";
  const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno != ENOENT && errno != ESRCH;
  std::string buffer;
  const auto text = kernel::read_whole(file.get(), buffer, name);
  if (!text.ok()) return text.error().code != ESRCH;
  const auto path = kernel::parse_cgroup_path(*text, kernel::CgroupVersion::v1);
  return !path.ok() || groups.cover(*path);
}

// `inside`: the threads in the victim's subtree, sorted.
bool has_protected_thread(pid_t pid, const std::vector<pid_t>& inside,
                          const ProtectedGroups& groups) {
  const std::string name = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, CloseStream> tasks(::opendir(name.c_str()));
  if (!tasks) return errno != ENOENT && errno != ESRCH;
  while (const dirent* entry = ::readdir(tasks.get())) {
    const auto thread = parse_i64(entry->d_name);
    if (!thread || std::ranges::binary_search(inside, static_cast<pid_t>(*thread))) continue;
    if (is_protected(static_cast<pid_t>(*thread), groups)) return true;
  }
  return false;
}

}  // namespace

bool Members::may_be_signalled(pid_t pid) const {
  return std::ranges::binary_search(present, pid) &&
         !std::ranges::binary_search(protected_pids, pid);
}

Result<Members> members_of(const kernel::CgroupDir& cgroup, const NeverKill& never_kill) {
  auto list = TRY(kernel::list_processes(cgroup));
  Members members{std::move(list.pids), {}, std::move(list.failure)};
  const ProtectedGroups* groups = never_kill.protected_groups();
  if (groups == nullptr || list.threads.empty()) return members;
  for (const pid_t pid : members.present) {
    if (has_protected_thread(pid, list.threads, *groups)) members.protected_pids.push_back(pid);
  }
  return members;
}

Result<Members> members_of(const kernel::CgroupDir& cgroup, const NeverKill& never_kill,
                           const ProcessLister& lister) {
  if (!lister.exists()) return members_of(cgroup, never_kill);
  const auto listed = lister.list(cgroup.id());
  if (!listed.ok()) return members_of(cgroup, never_kill);
  Members members;
  for (const kernel::ListedProcess& each : *listed) {
    if (lister.may_be_protected(each, never_kill)) return members_of(cgroup, never_kill);
    members.present.push_back(each.pid);
  }
  return members;
}

}  // namespace forestall::actuators
