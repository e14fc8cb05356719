// SPDX-License-Identifier: Apache-2.0
// One process, read from /proc as the OOM killer reads it.
//
// All reads use one descriptor on its directory. The kernel ties it to the process, not to the pid:
// after the process ends all reads fail, even if the pid is reused. All values are therefore of one
// process, though not of one instant.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/process.h"
#include "sources/process_text.h"

namespace forestall::sources {

// The memory cgroup of a path. On v2 the nearest one at or above it that has the memory controller:
// the kernel charges that one. Results are cached for one scan.
class CgroupFinder {
 public:
  explicit CgroupFinder(const kernel::CgroupTree& tree) : tree_(tree) {}
  // Inode 0: it was removed, or lies outside of what is mounted here.
  [[nodiscard]] CgroupId find(std::string_view path);
  void forget() { known_.clear(); }

 private:
  [[nodiscard]] CgroupId evaluate(std::string path) const;

  const kernel::CgroupTree& tree_;
  std::unordered_map<std::string, CgroupId> known_;
};

class ProcessReader {
 public:
  // `proc` is the root of procfs. `tree` must outlive the reader.
  static Result<ProcessReader> open(const kernel::CgroupTree& tree, const std::string& proc);

  struct ProcessReadings {
    ProcessSample sample;
    MemoryLayout layout;
    pid_t thread = 0;  // the thread that has the memory: usually the leader
  };
  // Sets RAM + swap, the base of oom_score, and clears the cgroup cache. Call before each scan.
  void begin(Pages total_pages);
  // Nullopt: the process is gone, is a kernel thread or no thread group, or `wanted` rejects its
  // cgroup. `listed_in`: the cgroup whose process list named it; inode 0 if none. memory_id stays
  // 0.
  Result<std::optional<ProcessReadings>> read(pid_t pid, CgroupId listed_in,
                                              const std::function<bool(CgroupId)>& wanted);
  // Its path in the memory hierarchy. ESRCH if the process is gone.
  [[nodiscard]] Result<std::string> cgroup_path(pid_t pid);

  [[nodiscard]] int proc_fd() const { return proc_.get(); }

 private:
  ProcessReader(const kernel::CgroupTree& tree, UniqueFd proc)
      : tree_(&tree), proc_(std::move(proc)), cgroups_(tree) {}
  // The text is valid until the next read.
  Result<std::string_view> read_file(int directory, const char* file);
  Result<CgroupId> read_cgroup(int directory, const StatText& stat, CgroupId listed_in);
  Result<std::int64_t> read_number(int directory, const char* file);
  Result<StatusText> read_status(int directory);
  // For a group whose leader has no memory any more: the thread that the kernel uses instead. Its
  // number; nullopt if no thread has memory.
  Result<std::optional<pid_t>> thread_with_memory(int directory, StatusText& status,
                                                  StatText& stat);
  Result<bool> dying(int directory, const StatText& stat, const StatusText& status);
  Result<std::optional<ProcessReadings>> read_in(int directory, pid_t pid, CgroupId listed_in,
                                                 const std::function<bool(CgroupId)>& wanted);
  Result<Unkillable> unkillable(int directory, const StatText& stat, const StatusText& status,
                                const ProcessSample& sample);
  Result<bool> any_thread(int directory,
                          const std::function<Result<bool>(int directory, pid_t thread)>& found);

  const kernel::CgroupTree* tree_;
  UniqueFd proc_;
  CgroupFinder cgroups_;
  Pages total_pages_ = 0;
  std::string buffer_;
};

}  // namespace forestall::sources
