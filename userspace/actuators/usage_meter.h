// SPDX-License-Identifier: Apache-2.0
// The memory usage of one cgroup, read again and again through a descriptor opened before the kill:
// no path is looked up while memory is short.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

class UsageMeter {
 public:
  // On memory.current (v2) or memory.usage_in_bytes (v1).
  static Result<UsageMeter> open(const kernel::CgroupDir& cgroup, kernel::CgroupVersion version);

  // ENODEV when the cgroup was removed: then all of it is back.
  [[nodiscard]] Result<Bytes> read() const;

 private:
  explicit UsageMeter(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Usage below this proves nothing: the kernel charges 64 pages ahead on each CPU
// (mm/memcontrol.c MEMCG_CHARGE_BATCH), and leaves some slab behind.
inline constexpr Bytes kUsageGrain = mib(1);

// Whether a victim's memory counts as back:
// - all its processes exited and its usage fell at all (what remains is page cache, which belongs
//   to nobody any more and does not come back by killing) or was next to nothing before, or
// - its usage fell by 90 % or more, though something in it will not exit (uninterruptible sleep, a
//   v1 freezer, a tracer): process_mrelease has taken its memory, so waiting on is for nothing.
[[nodiscard]] bool memory_is_back(Bytes before, Bytes now, bool all_exited);

}  // namespace forestall::actuators
