// SPDX-License-Identifier: Apache-2.0
#include "kernel/cgroup_processes.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>

#include "kernel/cgroup_descent.h"
#include "kernel/process_ref.h"

namespace forestall::kernel {
namespace {

constexpr std::int64_t kPidMax = std::int64_t{1} << 30;

// Appends the pids of a list of any length. A line without a pid of this namespace is skipped and
// reported at the end.
Result<void> append_pids(int fd, std::vector<pid_t>& pids) {
  std::array<char, 8192> text;
  std::optional<std::int64_t> pid;
  bool all_valid = true;
  for (;;) {
    const ssize_t size = ::read(fd, text.data(), text.size());
    if (size < 0) return errno_error("read", "cgroup.procs");
    for (ssize_t i = 0; i < size; ++i) {
      const char letter = text[static_cast<std::size_t>(i)];
      if (letter != '\n') {
        pid = std::min(pid.value_or(0) * 10 + (letter - '0'), kPidMax + 1);
        continue;
      }
      const bool valid = pid && *pid > 0 && *pid <= kPidMax;
      if (valid) pids.push_back(static_cast<pid_t>(*pid));
      all_valid = all_valid && valid;
      pid.reset();
    }
    if (size == 0) break;
  }
  // The kernel writes 0 for a process outside of this pid namespace, which cannot be signalled.
  if (all_valid) return {};
  return error("cgroup.procs lists a process outside of this pid namespace; run with hostPID");
}

Result<void> read_list(const CgroupDir& group, const char* name, std::vector<pid_t>& pids) {
  const UniqueFd file = TRY(group.open_file(name, O_RDONLY));
  const auto read = append_pids(file.get(), pids);
  // The kernel lists the processes of a threaded cgroup in its domain ancestor.
  if (!read.ok() && read.error().code != EOPNOTSUPP) return read.error();
  return {};
}

// Only v1 has this file. Its path would take locks that any tenant takes as well.
bool has_thread_list(const CgroupDir& group) {
  struct statfs filesystem {};
  if (::fstatfs(group.fd(), &filesystem) == 0) {
    if (filesystem.f_type == CGROUP2_SUPER_MAGIC) return false;
    if (filesystem.f_type == CGROUP_SUPER_MAGIC) return true;
  }
  return ::faccessat(group.fd(), "tasks", F_OK, 0) == 0;  // a copy of a hierarchy
}

bool leader_has_exited(pid_t pid) {
  const auto stat = read_process_stat(pid);
  return stat.ok() && stat->exited;
}

}  // namespace

Result<void> processes_led_in(const CgroupDir& group, ProcessList& list) {
  std::vector<pid_t> listed;
  auto read = read_list(group, "cgroup.procs", listed);
  if (listed.empty()) return read;
  std::vector<pid_t> here;
  const auto threads_read = read_list(group, "tasks", here);
  std::ranges::sort(here);
  std::ranges::copy_if(listed, std::back_inserter(list.pids), [&](pid_t pid) {
    return std::ranges::binary_search(here, pid) || leader_has_exited(pid);
  });
  list.threads.insert(list.threads.end(), here.begin(), here.end());
  return read.ok() ? threads_read : read;
}

Result<ProcessList> list_processes(const CgroupDir& cgroup) {
  ProcessList list;
  const bool v1 = has_thread_list(cgroup);
  const auto visited = visit_groups(cgroup, [&](const CgroupDir& group, const std::string& path) {
    ++list.groups;
    const auto added =
        v1 ? processes_led_in(group, list) : read_list(group, "cgroup.procs", list.pids);
    return added.ok() ? added : Result<void>(added.error().in(path));
  });
  if (!visited.ok()) {
    if (visited.error().code == ENODEV || visited.error().code == ENOENT) return visited.error();
    list.failure = visited.error();
  }
  // A process that moves between two groups during the walk is listed twice.
  std::ranges::sort(list.pids);
  list.pids.erase(std::ranges::unique(list.pids).begin(), list.pids.end());
  std::ranges::sort(list.threads);
  return list;
}

}  // namespace forestall::kernel
