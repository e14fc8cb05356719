// SPDX-License-Identifier: Apache-2.0
// One process, read from /proc as the OOM killer would see it.
//
// Everything is read through one descriptor on its directory, which the kernel ties to the process
// and not to the number: after its end all reads fail, whoever gets the pid next. What one reads is
// therefore of one process, though not of one instant.
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

// Which memory cgroup a path is. On v2 the nearest one at or above it that has the memory
// controller: that is whom the kernel charges. Answers are remembered for one scan.
class CgroupFinder {
 public:
  explicit CgroupFinder(const kernel::CgroupTree& tree) : tree_(tree) {}
  // Inode 0: it is gone, or lies outside of what is mounted here.
  [[nodiscard]] CgroupId find(std::string_view path);
  void forget() { known_.clear(); }

 private:
  [[nodiscard]] CgroupId look(std::string path) const;

  const kernel::CgroupTree& tree_;
  std::unordered_map<std::string, CgroupId> known_;
};

class ProcessReader {
 public:
  // `proc` is the root of procfs. `tree` must outlive the reader.
  static Result<ProcessReader> open(const kernel::CgroupTree& tree, const std::string& proc);

  struct Reading {
    ProcessSample sample;
    MemoryLayout layout;
    pid_t thread = 0;  // the one that was found to have the memory: mostly the leader
  };
  // RAM + swap, which oom_score is a share of. To be set before each scan; forgets what was
  // remembered of cgroups.
  void begin(Pages total_pages);
  // Nothing: it is gone, is a kernel thread or no thread group, or `wanted` does not want its
  // cgroup. `listed_in` is the cgroup that listed it, if one did; inode 0 else. memory_id stays 0.
  Result<std::optional<Reading>> read(pid_t pid, CgroupId listed_in,
                                      const std::function<bool(CgroupId)>& wanted);
  // Its path in the memory hierarchy. ESRCH when it is gone.
  [[nodiscard]] Result<std::string> cgroup_path(pid_t pid);

  [[nodiscard]] int proc_fd() const { return proc_.get(); }

 private:
  ProcessReader(const kernel::CgroupTree& tree, UniqueFd proc)
      : tree_(&tree), proc_(std::move(proc)), cgroups_(tree) {}
  // The text lives until the next read.
  Result<std::string_view> read_file(int directory, const char* file);
  Result<CgroupId> read_cgroup(int directory, const StatText& stat, CgroupId listed_in);
  Result<std::int64_t> read_number(int directory, const char* file);
  Result<StatusText> read_status(int directory);
  // Of a group whose leader has no memory any more: the thread that the kernel takes for it.
  // Its number; nothing if none of them has memory either.
  Result<std::optional<pid_t>> stand_in(int directory, StatusText& status, StatText& stat);
  Result<bool> dying(int directory, const StatText& stat, const StatusText& status);
  Result<std::optional<Reading>> read_in(int directory, pid_t pid, CgroupId listed_in,
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
