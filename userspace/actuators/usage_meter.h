// SPDX-License-Identifier: Apache-2.0
// The memory usage of one cgroup, read repeatedly through a descriptor opened before the kill: no
// path lookup while memory is short.
#pragma once

#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"

namespace forestall::actuators {

class UsageMeter {
 public:
  // On memory.current (v2) or memory.usage_in_bytes (v1).
  static Result<UsageMeter> open(const kernel::CgroupDir& cgroup, kernel::CgroupVersion version);

  // On that file, which is open already.
  explicit UsageMeter(std::shared_ptr<const kernel::HeldFile> file) : file_(std::move(file)) {}

  // ENODEV if the cgroup was removed: then all its memory is back.
  [[nodiscard]] Result<Bytes> read() const;

 private:
  std::shared_ptr<const kernel::HeldFile> file_;
};

// Usage below this is within the accounting error: the kernel charges 64 pages ahead on each CPU
// (mm/memcontrol.c MEMCG_CHARGE_BATCH), and some slab stays charged.
inline constexpr Bytes kUsageGrain = mib(1);

// Whether a victim's memory counts as back:
// - all its processes exited, and its usage fell at all or was next to nothing before. What remains
//   is page cache that no process owns and that a kill does not free; or
// - its usage fell by 90 % or more, although a process does not exit (uninterruptible sleep, a v1
//   freezer, a tracer). process_mrelease has taken its memory, so further waiting is useless.
[[nodiscard]] bool memory_is_back(Bytes before, Bytes now, bool all_exited);

}  // namespace forestall::actuators
