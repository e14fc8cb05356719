// SPDX-License-Identifier: Apache-2.0
// Slows down cgroups that near their own limit: memory.high holds them up, below memory.max, where
// the kernel would kill (v2). Past memory.high each charge first reclaims and then sleeps, the
// longer the farther it is past it (mm/memcontrol.c mem_cgroup_handle_over_high).
//
// Set at the crossing, not ahead of it as the tripwire does: so usage may be above the value, and
// the kernel reclaims in the writing thread before the write returns. Hence a thread of its own, of
// ordinary priority. What was there before is given back when a cgroup is not named any more, by
// the destructor, and after SIGKILL by the next start (kernel/memory_high.h).
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

// Thread rule: every call from one thread, the loop's; none of them waits but the destructor.
class Brakes {
 public:
  // ENOTSUP where there is no memory.high (v1). `tree` must outlive the object.
  static Result<std::unique_ptr<Brakes>> create(const kernel::CgroupTree& tree);
  Brakes(const Brakes&) = delete;
  Brakes& operator=(const Brakes&) = delete;
  // Lets everybody go.
  ~Brakes();

  // From now on these are slowed, and nobody else. Takes effect on the thread.
  void apply(std::vector<Brake> wanted);
  // What could not be set or given back since the last call, and why.
  [[nodiscard]] std::vector<std::string> take_failures();

 private:
  struct Held;
  Brakes(const kernel::CgroupTree& tree, UniqueFd told);
  void serve();
  void set(const std::vector<Brake>& wanted, std::list<Held>& held,
           std::vector<std::string>& failures) const;

  const kernel::CgroupTree& tree_;
  const UniqueFd told_;  // eventfd: there is something new below
  PriorityMutex mutex_;
  // Under the mutex, which is held for as long as it takes to move them.
  std::vector<Brake> wanted_;
  std::vector<std::string> failures_;
  bool stop_ = false;

  std::vector<Brake> last_;  // the loop's
  std::thread thread_;       // last: serve() uses all of the above
};

}  // namespace forestall::actuators
