// SPDX-License-Identifier: Apache-2.0
// The extended attributes that systemd-oomd leaves on a cgroup that it kills. PID 1 compares
// user.oomd_ooms when a process of the unit exits: if it has grown, the result of the unit is
// "oom-kill". So it has to grow before the first SIGKILL.
//
// Setting one takes the lock of the cgroup's inode. The owner of the cgroup can hold that lock for
// as long as it likes, such as by a readdir() into memory whose faults it serves itself. So a
// thread of its own sets them, and a kill waits for it for a bounded time only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/workload.h"

namespace forestall::actuators {

struct ManagedOomMark {
  Workload victim;
  std::uint64_t processes = 0;  // that the kill signalled; 0: it killed nothing
  bool for_swap = false;        // by ManagedOOMSwap, not by ManagedOOMMemoryPressure
};

// Base: nothing is marked.
// Thread rule: all calls come from one thread, the loop's.
class ManagedOomMarker {
 public:
  ManagedOomMarker() = default;
  ManagedOomMarker(const ManagedOomMarker&) = delete;
  ManagedOomMarker& operator=(const ManagedOomMarker&) = delete;
  virtual ~ManagedOomMarker() = default;

  // Before the signals: adds 1 to user.oomd_ooms.
  virtual void announce(const Workload& /*victim*/) {}
  // After the signals of an announced kill: adds the number of processes to user.oomd_kill. If it
  // killed nothing, takes the announcement back.
  virtual void mark(ManagedOomMark /*mark*/) {}
};

class ManagedOomMarkerThread final : public ManagedOomMarker {
 public:
  // What waits; more is a problem.
  static constexpr std::size_t kWaitingMax = 64;
  // The longest that announce() waits. It takes less than 1 ms, unless the lock is held.
  static constexpr Duration kPatience = std::chrono::milliseconds(20);
  // Called on the thread and on the loop's.
  using Report = std::function<void(const std::string& problem)>;

  // `tree` outlives it.
  static Result<std::unique_ptr<ManagedOomMarkerThread>> start(const kernel::CgroupTree& tree,
                                                               Report report);
  // Waits until all are set.
  ~ManagedOomMarkerThread() override;

  // Does not wait while the thread is behind.
  void announce(const Workload& victim) override;
  void mark(ManagedOomMark mark) override;

 private:
  struct Order {
    ManagedOomMark mark;
    bool announces = false;
  };

  ManagedOomMarkerThread(const kernel::CgroupTree& tree, Report report, UniqueFd changed,
                         UniqueFd done)
      : tree_(tree),
        report_(std::move(report)),
        changed_(std::move(changed)),
        done_(std::move(done)) {}
  // Whether it was free before. False also if too many wait.
  bool submit(Order order);
  void serve();
  // False: it has to end.
  [[nodiscard]] bool take(std::deque<Order>& orders);

  const kernel::CgroupTree& tree_;
  const Report report_;
  const UniqueFd changed_;  // eventfd: what the mutex guards changed
  const UniqueFd done_;     // eventfd: an order is done
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> finished_{0};
  base::PriorityMutex mutex_;
  std::deque<Order> waiting_;
  bool stopped_ = false;

  std::thread thread_;  // last: serve() uses all members above
};

// Adds to a number in an attribute of the cgroup; without it, to 0. An error: the cgroup was
// removed and created again, the attribute has no number, or the sum is none.
[[nodiscard]] Result<void> add_to_attribute(const kernel::CgroupTree& tree, const Workload& victim,
                                            const char* name, std::int64_t number);
[[nodiscard]] Result<void> add_to_attribute(int directory, const char* name, std::int64_t number);

}  // namespace forestall::actuators
