// SPDX-License-Identifier: Apache-2.0
// A thread that kills if the loop hangs in a call or gets no CPU. It runs above the loop's
// priority, and has what was pre-ranked: for each subject in the warning zone one victim, held by
// pidfd. It opens the files to read whether the threshold is met, and closes those of former
// orders: either may wait for a lock that any tenant takes.
//
// Outside of the zone there are no orders, and the thread sleeps until there are. With orders it
// reads the subjects eight times a second. It acts on an order when its threshold has been met for
// as long as the patience, and either
// - the loop has not evaluated once since that was seen, or
// - the loop is late by the patience for an evaluation it had announced.
// Each order is timed separately.
// While a loop evaluates and finds no action (memory pending release, no candidate left), the
// thread does not act. When the guard in the kernel has fired, the thread first waits for the
// memory of its victim.
//
// The loop claims the orders before it signals, and the thread before it acts. So a loop that
// resumes at that very moment either was first, or takes the thread's kill before it decides.
// Claimed orders are void; new ones come with the next list. Orders that are withdrawn or replaced
// are claimed in the same step. While the loop has not taken a kill, the thread does not act again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actuators/pinned_processes.h"
#include "actuators/reaper_pool.h"
#include "agent/kill_request.h"
#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/decision.h"

namespace forestall::agent {

// The watchdog as the loop uses it. Base: nothing acts when the loop hangs.
class LoopWatchdog {
 public:
  // One threshold, and the victim when it is met.
  struct Order {
    CgroupId cgroup;  // inode 0: the node
    std::string path;
    Signal signal = Signal::memory_available;
    // The threshold is met when the working set is above this (Line::floor_line). Where the
    // capacity is the cgroup's own limit, it must still be that.
    Bytes floor_line;
    Bytes capacity;
    Candidate victim;
    std::shared_ptr<const actuators::PinnedProcesses> pinned;
  };

  LoopWatchdog() = default;
  LoopWatchdog(const LoopWatchdog&) = delete;
  LoopWatchdog& operator=(const LoopWatchdog&) = delete;
  virtual ~LoopWatchdog() = default;

  // New orders, good until `until`, in place of those before. An order whose files cannot be opened
  // is left out. Opens and closes nothing.
  virtual void post(std::vector<Order>, MonotonicTime) {}
  // There are no orders any more: from its return on, the thread begins no kill by them. One that
  // had begun is taken like any other. Costs nothing when there were none.
  virtual void withdraw() {}
  // The loop has finished an evaluation.
  virtual void evaluated() {}
  // The loop will evaluate again at this time at the latest.
  virtual void announce(MonotonicTime) {}
  // The loop is about to signal a victim. False: the thread was first, and there is a kill to take.
  [[nodiscard]] virtual bool claim() { return true; }
  // Polls readable when there is a kill to take; -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
  // The kill by the thread. Withdraws the orders as well, if there is one.
  [[nodiscard]] virtual std::optional<KillRequest> take_kill() { return std::nullopt; }
};

class Watchdog final : public LoopWatchdog {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(250);
  // For the memory of the guard's victim, which no process_mrelease speeds up: without it 256 MiB
  // took 838 ms on contended CPUs.
  static constexpr Duration kGuardRelease = std::chrono::seconds(1);

  // `real_time`: the loop runs at real-time priority, and this thread above it. `tree` and `clock`
  // must outlive the object.
  static Result<std::unique_ptr<Watchdog>> create(const kernel::CgroupTree& tree,
                                                  const Clock& clock, bool real_time,
                                                  Duration patience = kPatience);
  ~Watchdog() override;

  // `fired` returns how often the guard in the kernel has fired; the loop and the thread call it.
  // The thread calls `postpone` before it kills: the guard has to wait for that memory. Both until
  // the end of this object. To be set before the first post().
  void defer_to_guard(std::function<std::uint64_t()> fired, std::function<void()> postpone = {}) {
    guard_fired_ = std::move(fired);
    postpone_guard_ = std::move(postpone);
  }
  void post(std::vector<Order> orders, MonotonicTime until) override;
  void withdraw() override;
  void evaluated() override { evaluations_.fetch_add(1, std::memory_order_relaxed); }
  void announce(MonotonicTime next) override { next_evaluation_ns_.store(to_ns(next)); }
  [[nodiscard]] bool claim() override;
  [[nodiscard]] int fd() const override { return fired_.get(); }
  [[nodiscard]] std::optional<KillRequest> take_kill() override;

 private:
  struct Post;
  struct Orders;
  // What the thread did.
  struct WatchdogKill {
    Order order;
    Bytes working_set;  // the subject's, when it acted
    MonotonicTime met;  // when it found the threshold met first
    actuators::Signalled signalled;
  };
  // Since when an order's threshold is seen met, and how often the loop had evaluated by then.
  struct MetSince {
    MonotonicTime since;
    std::uint64_t evaluations = 0;
  };

  Watchdog(const kernel::CgroupTree& tree, const Clock& clock, bool real_time, Duration patience,
           UniqueFd changed, UniqueFd fired, std::unique_ptr<actuators::ReaperPool> reaper);
  void replace(std::shared_ptr<Orders> orders);
  [[nodiscard]] std::shared_ptr<Orders> current();
  void serve();
  void drop_retired();
  void open(Orders& orders);
  void watch(Orders& orders);
  [[nodiscard]] bool defers_to_guard(Orders& orders, MonotonicTime now) const;
  [[nodiscard]] bool loop_is_late(const MetSince& met_since, MonotonicTime now) const;
  [[nodiscard]] bool has_untaken_kill();
  void act(Orders& orders, const Post& post, Bytes working_set);
  void release(const actuators::PinnedProcesses& pinned);
  void hand_over(WatchdogKill kill);
  [[nodiscard]] static KillRequest to_request(const WatchdogKill& kill);

  const kernel::CgroupTree& tree_;
  const Clock& clock_;
  const bool real_time_;
  const Duration patience_;
  const UniqueFd changed_;                      // wakes the thread
  const UniqueFd fired_;                        // wakes the loop
  std::function<std::uint64_t()> guard_fired_;  // none: there is no guard
  std::function<void()> postpone_guard_;        // with guard_fired_
  std::atomic<std::uint64_t> evaluations_{0};
  std::atomic<std::int64_t> next_evaluation_ns_{INT64_MAX};
  std::atomic<bool> stopping_{false};
  base::PriorityMutex mutex_;
  std::shared_ptr<Orders> orders_;                // guarded by mutex_
  std::vector<std::shared_ptr<Orders>> retired_;  // guarded by mutex_; the thread closes them
  std::optional<WatchdogKill> kill_;              // guarded by mutex_
  // The loop's: former orders by which the thread had begun to act.
  std::shared_ptr<Orders> acted_on_;
  std::string buffer_;  // the thread's
  // The thread's: frees the victim's memory at ordinary priority.
  const std::unique_ptr<actuators::ReaperPool> reaper_;
  std::vector<actuators::ReapReport> reaped_;
  std::thread thread_;  // last: serve() uses all of the above
};

}  // namespace forestall::agent
