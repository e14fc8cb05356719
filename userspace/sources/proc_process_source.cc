// SPDX-License-Identifier: Apache-2.0
// Reads all processes from /proc, five files each: slower than BPF. Used on hosts without BPF, and
// as the reference for the BPF source.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "sources/cgroup_walk.h"
#include "sources/process_reader.h"
#include "sources/process_source.h"
#include "sources/shared_memory.h"
#include "sources/walk_order.h"

namespace forestall::sources {
namespace {

struct Listed {
  pid_t pid = 0;
  CgroupId cgroup;  // the cgroup that listed it; inode 0: none
  friend auto operator<=>(const Listed&, const Listed&) = default;
};

class ProcProcessSource final : public ProcessSource {
 public:
  ProcProcessSource(const kernel::CgroupTree& tree, ProcessReader reader, kernel::HeldFile meminfo)
      : tree_(tree), reader_(std::move(reader)), meminfo_(std::move(meminfo)) {}

  Result<void> scan(std::optional<CgroupId> subtree, std::vector<ProcessSample>& samples) override;
  Result<bool> order(std::vector<ProcessSample>& samples,
                     const std::vector<std::size_t>& which) override;
  [[nodiscard]] std::string_view name() const override { return "proc"; }

 private:
  Result<Pages> total_pages();
  Result<void> list_node();
  Result<void> list_subtree(CgroupId top);

  const kernel::CgroupTree& tree_;
  ProcessReader reader_;
  kernel::HeldFile meminfo_;
  std::string buffer_;
  // State of the running scan.
  std::vector<Listed> listed_;
  std::vector<OomCgroup> cgroups_;
  std::vector<std::uint64_t> inside_;  // inodes of the subtree, ascending
  std::vector<MemoryOwner> owners_;
};

Result<Pages> ProcProcessSource::total_pages() {
  const auto text = TRY(meminfo_.read(buffer_));
  const auto meminfo = TRY(kernel::parse_meminfo(text));
  if (!meminfo.total || !meminfo.swap_total) return error("/proc/meminfo: no total");
  return (meminfo.total->count + meminfo.swap_total->count) / ::sysconf(_SC_PAGESIZE);
}

Result<void> ProcProcessSource::list_node() {
  UniqueFd again(::openat(reader_.proc_fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return errno_error("open", "/proc");
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(again.get()), ::closedir);
  if (!list) return errno_error("list", "/proc");
  (void)again.release();  // owned by the list from now on
  errno = 0;
  while (const dirent* entry = ::readdir(list.get())) {
    const auto pid = parse_i64(entry->d_name);
    if (pid && *pid > 0) listed_.push_back({static_cast<pid_t>(*pid), {}});
    errno = 0;
  }
  if (errno != 0) return errno_error("list", "/proc");
  return {};
}

Result<void> ProcProcessSource::list_subtree(CgroupId top) {
  std::vector<bool> inside;
  TRY(walk_memory_cgroups(tree_, "/", cgroups_, [&](const kernel::CgroupDir& group) {
    const auto& cgroup = cgroups_.back();
    inside.push_back(cgroup.id == top || (cgroup.parent && inside[*cgroup.parent]));
    if (!inside.back()) return Result<void>();
    inside_.push_back(cgroup.id.inode);
    const auto pids = group.processes();
    // A removed group has no list. A threaded v2 group has none either: its processes are in the
    // list of the domain above.
    if (!pids && pids.error().code != ENODEV && pids.error().code != ENOENT &&
        pids.error().code != EOPNOTSUPP) {
      return Result<void>(pids.error());
    }
    for (const pid_t pid : pids ? *pids : std::vector<pid_t>()) {
      if (pid > 0) listed_.push_back({pid, cgroup.id});
    }
    return Result<void>();
  }));
  std::ranges::sort(inside_);
  if (inside_.empty()) return Error{ENOENT, fmt::format("memory cgroup {}", top.inode)};
  return {};
}

Result<void> ProcProcessSource::scan(std::optional<CgroupId> subtree,
                                     std::vector<ProcessSample>& samples) {
  samples.clear();
  listed_.clear();
  inside_.clear();
  owners_.clear();
  const Pages total = TRY(total_pages());
  reader_.begin(total);
  TRY(subtree ? list_subtree(*subtree) : list_node());
  // A process may have moved from one list to the next, and v1 lists a process in the group of each
  // of its threads.
  std::ranges::sort(listed_);
  const auto again = std::ranges::unique(listed_, {}, &Listed::pid);
  listed_.erase(again.begin(), again.end());
  const auto wanted = [&](CgroupId cgroup) {
    return !subtree || std::ranges::binary_search(inside_, cgroup.inode);
  };
  for (const auto& [pid, cgroup] : listed_) {
    const auto reading = TRY(reader_.read(pid, cgroup, wanted));
    if (!reading) continue;
    if (reading->sample.unkillable != Unkillable::no_memory) {
      owners_.push_back({samples.size(), reading->thread, reading->layout});
    }
    samples.push_back(reading->sample);
  }
  report_shared_memory(samples, owners_, kcmp_memory);
  return {};
}

Result<bool> ProcProcessSource::order(std::vector<ProcessSample>& samples,
                                      const std::vector<std::size_t>& which) {
  // v1 sorts its list (kernel/cgroup/cgroup-v1.c pidlist_array_load). v2 lists in css_task_iter
  // order, which is also the OOM killer's.
  if (which.empty() || tree_.version() == kernel::CgroupVersion::v1) return false;
  const auto& first = samples[which.front()];
  const auto path = reader_.cgroup_path(first.id.pid);
  if (!path && path.error().code == ESRCH) return false;
  if (!path) return path.error();
  const auto directory = tree_.open(*path);
  // It moved, or is charged to an ancestor, whose walk covers more than this list.
  if (!directory || directory->id() != first.cgroup) return false;
  const auto walk = directory->processes();
  if (!walk) return false;
  return take_walk_order(*walk, samples, which);
}

}  // namespace

Result<std::unique_ptr<ProcessSource>> proc_process_source(const kernel::CgroupTree& tree,
                                                           const std::string& proc) {
  auto reader = TRY(ProcessReader::open(tree, proc));
  const auto path = proc + "/meminfo";
  auto meminfo = TRY(kernel::HeldFile::open(AT_FDCWD, path.c_str(), path));
  return std::unique_ptr<ProcessSource>(
      std::make_unique<ProcProcessSource>(tree, std::move(reader), std::move(meminfo)));
}

}  // namespace forestall::sources
