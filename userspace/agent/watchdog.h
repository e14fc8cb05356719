// SPDX-License-Identifier: Apache-2.0
// A thread that acts when the loop does not: hung in a call that should not have waited, or not
// given a CPU. It runs above the loop, and has what was made ready: for each subject in the warning
// zone one victim, held by pidfd, and the files that tell whether its threshold is met.
//
// Outside of the zone there are no orders and the thread sleeps without an end; with orders it
// reads the subjects eight times a second. It acts on an order when its threshold has been met for
// as long as the patience, and either
// - the loop has not looked once since that was seen, or
// - the loop is late by the patience for a look it had announced.
// Each order has that time of its own: one that was met before it and is no more lends it none.
// A loop that has looked and found nothing to be done (memory on its way, nobody left) is not
// second-guessed as long as it keeps looking. Nor is the guard in the kernel: when it has fired,
// the memory of whom it shot is waited for before any time is counted.
//
// Whoever acts on the orders claims them first: the loop when it signals, the thread when it does.
// So a loop that comes back at that very moment finds either that it was first, or a shot to take
// account of before it decides anything. Claimed orders are void; new ones come with the next list.
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

#include "actuators/grip.h"
#include "actuators/priority_mutex.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/decision.h"
#include "model/record.h"

namespace forestall::agent {

class Watchdog {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(250);
  // For the memory of whom the guard shot, which nobody helps to come back: without
  // process_mrelease 256 MiB took 838 ms on contended CPUs.
  static constexpr Duration kGuardRelease = std::chrono::seconds(1);

  // One subject, and who goes when it is met.
  struct Order {
    CgroupId cgroup;  // inode 0: the node
    std::string path;
    Signal signal = Signal::memory_available;
    // The threshold is met when the working set is above this (Line::floor_line). Where the
    // capacity is the cgroup's own limit, it must still be that.
    Bytes floor_line;
    Bytes capacity;
    Candidate victim;
    std::shared_ptr<const actuators::Grip> grip;
  };
  // What it did.
  struct Shot {
    Order order;
    Bytes working_set;   // the subject's, when it acted
    Bytes victim_usage;  // before
    MonotonicTime met;   // when it saw the threshold met first
    MonotonicTime at;    // first SIGKILL
    std::uint32_t processes = 0;
  };

  // `real_time`: the loop runs at real time, and this thread above it. Both arguments must outlive
  // the object.
  static Result<std::unique_ptr<Watchdog>> create(const kernel::CgroupTree& tree,
                                                  const Clock& clock, bool real_time,
                                                  Duration patience = kPatience);
  ~Watchdog();

  // What follows is the loop's. How often the guard in the kernel has fired; asked by the thread
  // too, and good until the end of this object. Before the first post().
  void heed_guard(std::function<std::uint64_t()> fired) { guard_fired_ = std::move(fired); }
  // New orders, good until `until`, instead of those before; none of which a file cannot be opened.
  // Opens files.
  void post(std::vector<Order> orders, MonotonicTime until);
  // There are no orders any more. Costs nothing when there were none.
  void withdraw();
  // The loop has finished a look.
  void looked() { looks_.fetch_add(1, std::memory_order_relaxed); }
  // The loop will look again at this time at the latest.
  void announce(MonotonicTime next) { next_look_ns_.store(to_ns(next)); }
  // The loop is about to signal somebody. False: the thread was first, and a shot is to be taken.
  [[nodiscard]] bool claim();
  // Polls readable when there is a shot to take.
  [[nodiscard]] int fd() const { return fired_.get(); }
  // Withdraws the orders as well, if there is one.
  [[nodiscard]] std::optional<Shot> take_shot();

 private:
  struct Post;
  struct Orders;
  // Since when an order's threshold is seen met, and the loop's looks until then.
  struct Suspicion {
    MonotonicTime since;
    std::uint64_t looks = 0;
  };

  Watchdog(const kernel::CgroupTree& tree, const Clock& clock, bool real_time, Duration patience,
           UniqueFd changed, UniqueFd fired);
  void replace(std::shared_ptr<Orders> orders);
  [[nodiscard]] std::shared_ptr<Orders> current();
  void serve();
  void watch(Orders& orders);
  [[nodiscard]] bool gives_way(Orders& orders, MonotonicTime now) const;
  [[nodiscard]] bool loop_is_late(const Suspicion& suspicion, MonotonicTime now) const;
  void act(Orders& orders, const Post& post, Bytes working_set);
  void tell(Shot shot);

  const kernel::CgroupTree& tree_;
  const Clock& clock_;
  const bool real_time_;
  const Duration patience_;
  const UniqueFd changed_;                      // wakes the thread
  const UniqueFd fired_;                        // wakes the loop
  std::function<std::uint64_t()> guard_fired_;  // none: there is no guard
  std::atomic<std::uint64_t> looks_{0};
  std::atomic<std::int64_t> next_look_ns_{INT64_MAX};
  std::atomic<bool> stopping_{false};
  actuators::PriorityMutex mutex_;
  std::shared_ptr<Orders> orders_;  // guarded by mutex_
  std::optional<Shot> shot_;        // guarded by mutex_
  std::string buffer_;              // the thread's
  std::thread thread_;              // last: serve() uses all of the above
};

// The record of a shot, but for its number, its outcome and the time of day.
[[nodiscard]] Record to_record(const Watchdog::Shot& shot);

}  // namespace forestall::agent
