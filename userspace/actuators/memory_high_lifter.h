// SPDX-License-Identifier: Apache-2.0
// Lifts values of memory.high that another process has set, such as the kubelet, and restores them.
// The records are those of every memory.high that the agent sets, so that the next start restores
// what a killed agent left. A value that another process writes meanwhile stays.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/memory_high.h"
#include "kernel/setting_records.h"
#include "model/ids.h"

namespace forestall::actuators {

// Thread rule: one thread at a time. The destructor restores everything, within about a second.
class MemoryHighLifter {
 public:
  // REQUIRES: cgroup v2. `tree` and `records` outlive it.
  MemoryHighLifter(const kernel::CgroupTree& tree, const kernel::SettingRecords& records)
      : tree_(tree), records_(records) {}
  MemoryHighLifter(const MemoryHighLifter&) = delete;
  MemoryHighLifter& operator=(const MemoryHighLifter&) = delete;
  ~MemoryHighLifter();

  // Of a cgroup that is not lifted. Returns the value in whole pages. An error also if the present
  // one is not lower, or another setting of the agent has its memory.high.
  [[nodiscard]] Result<Bytes> lift(const std::string& path, CgroupId cgroup, Bytes high);
  // What was there before; nothing: it is not lifted, or another process has written a value.
  [[nodiscard]] std::optional<Bytes> original(CgroupId cgroup);
  // An error: the value stays lifted, or (EAGAIN) is being lowered, by one step in each call. Does
  // nothing if it is not lifted.
  [[nodiscard]] Result<void> restore(CgroupId cgroup);
  // All of them, within about a second: an error is final. `visit` gets what became of each one,
  // except those with a value of another process.
  void restore_all(const std::function<void(CgroupId cgroup, const std::string& path,
                                            const Result<void>& done)>& visit);
  // For each one with its path and its lifted value.
  void for_each(
      const std::function<void(CgroupId cgroup, const std::string& path, Bytes high)>& visit) const;

 private:
  struct Lifted {
    std::string path;
    kernel::MemoryHigh high;
  };

  const kernel::CgroupTree& tree_;
  const kernel::SettingRecords& records_;
  std::map<CgroupId, Lifted> lifted_;
};

}  // namespace forestall::actuators
