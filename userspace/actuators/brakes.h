// SPDX-License-Identifier: Apache-2.0
// Slows down cgroups that near their own limit with memory.high (v2), which is set below
// memory.max, where the kernel would kill. Above memory.high each charge first reclaims and then
// sleeps, longer with a larger excess (mm/memcontrol.c mem_cgroup_handle_over_high).
//
// It is set at the crossing, not ahead of it as in sources/high_tripwire.h. Usage may already be
// above the value, and then the kernel reclaims in the writing thread before the write returns.
// A separate thread of ordinary priority therefore writes it. The previous value is restored when a
// cgroup is no longer listed, by the destructor, and after a SIGKILL by the next start
// (kernel/memory_high.h).
#pragma once

#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actuators/priority_mutex.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

struct Brake {
  CgroupId cgroup;
  std::string path;
  Bytes high;

  friend bool operator==(const Brake&, const Brake&) = default;
};

// Thread rule: all calls come from one thread, the loop's. Only the destructor waits.
class Brakes {
 public:
  // ENOTSUP without memory.high (v1). `tree` must outlive the object.
  static Result<std::unique_ptr<Brakes>> create(const kernel::CgroupTree& tree);
  Brakes(const Brakes&) = delete;
  Brakes& operator=(const Brakes&) = delete;
  // Restores every cgroup.
  ~Brakes();

  // Throttles exactly these cgroups from now on. Takes effect on the thread.
  void apply(std::vector<Brake> wanted);
  // Failures to set or restore a value since the last call.
  [[nodiscard]] std::vector<std::string> take_failures();

 private:
  struct Held;
  Brakes(const kernel::CgroupTree& tree, UniqueFd told);
  void serve();
  void set(const std::vector<Brake>& wanted, std::list<Held>& held,
           std::vector<std::string>& failures) const;

  const kernel::CgroupTree& tree_;
  const UniqueFd told_;  // eventfd: wanted_ or stop_ changed
  PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to move them.
  std::vector<Brake> wanted_;
  std::vector<std::string> failures_;
  bool stop_ = false;

  std::vector<Brake> last_;  // used by the loop only
  std::thread thread_;       // last: serve() uses all members above
};

}  // namespace forestall::actuators
