// SPDX-License-Identifier: Apache-2.0
// The likely victims of a ladder, pinned on a thread below the loop's priority. Opening a cgroup
// waits for kernfs locks that any tenant takes, and each process takes 0.03 ms to open. Until the
// thread is done, the pins of the last list serve; a victim without pins is killed the ordinary
// way.
//
// A request passes to the thread and back by value; base/job_thread.h has the order of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "actuators/never_kill.h"
#include "actuators/pinned_processes.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/workload.h"

namespace forestall::actuators {

// Thread rule: the loop's thread only.
class PinnedVictims {
 public:
  using Pins = std::vector<std::shared_ptr<const PinnedProcesses>>;
  // Limit of pinned processes of all victims together.
  static constexpr std::size_t kProcessesMax = 512;

  // `tree` must outlive the object.
  static Result<std::unique_ptr<PinnedVictims>> create(const kernel::CgroupTree& tree);

  // Begins to pin these, in this order; the others are released when that is done. What is pinned
  // and still covers the processes of its cgroup stays as it is. If a request is under way, this
  // one begins after it, in place of one that waits.
  void pin(std::vector<Workload> workloads, const NeverKill& never_kill);
  // Releases all, and drops the requests that are not done.
  void release();
  // Null if none.
  [[nodiscard]] std::shared_ptr<const PinnedProcesses> of(CgroupId cgroup) const;

  // Whether a request is under way.
  [[nodiscard]] bool pinning() const { return waiting_ || (running_ && !dropped_); }
  // Polls readable once collect() has something to do.
  [[nodiscard]] int fd() const { return thread_->fd(); }
  // Takes what the thread has pinned, and starts the request that waits. Returns whether pins were
  // taken. pinning(): they are not yet those of the last request.
  [[nodiscard]] bool collect();

 private:
  struct Request {
    std::vector<Workload> workloads;
    NeverKill never_kill;
    Pins pins;  // in: those of before; out: the result
  };

  explicit PinnedVictims(const kernel::CgroupTree& tree) : tree_(tree) {}
  void start(Request request);
  void run();
  [[nodiscard]] static std::shared_ptr<const PinnedProcesses> find(const Pins& pins,
                                                                   CgroupId cgroup);

  const kernel::CgroupTree& tree_;
  Pins pins_;
  std::optional<Request> waiting_;
  bool dropped_ = false;            // release() came after the start of the running request
  std::optional<Request> running_;  // the thread's while it runs
  std::unique_ptr<base::JobThread> thread_;  // last: its job uses running_
};

}  // namespace forestall::actuators
