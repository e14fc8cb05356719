// SPDX-License-Identifier: Apache-2.0
// When the watchdog acts on its orders: by the time since the loop's last evaluation, counted for
// each subject. On real memory, with orders made by hand and the test in place of the loop.
//
// The patience is longer than the agent's, so that a test without CPU for a moment does not
// evaluation like a loop that hangs.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>

#include "agent/watchdog.h"
#include "integration/ladder_run.h"
#include "sources/cgroup_reader.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr Duration kLong = std::chrono::seconds(1);
constexpr Duration kBetweenEvaluations = std::chrono::milliseconds(50);
constexpr Bytes kFloor = mib(32);
constexpr Bytes kLarge = mib(64);

class WatchdogPatience : public ::testing::Test {
 protected:
  WatchdogPatience()
      : watchdog_(LadderRun::must(
            agent::Watchdog::create(run_.tree(), clock_, /*real_time=*/false, kLong))) {}

  // A subject that is its own victim: met while it uses more than the floor.
  [[nodiscard]] agent::Watchdog::Order order_for(const std::string& path) {
    agent::Watchdog::Order order;
    order.victim.sample = run_.rank(path);
    order.cgroup = order.victim.sample.workload.cgroup;
    order.path = path;
    order.signal = Signal::cgroup_memory_available;
    order.floor_line = kFloor;
    order.capacity = mib(256);
    run_.ladder().hold(order.victim.sample);
    order.pinned = run_.ladder().pinned_of(order.cgroup);
    return order;
  }
  // Whether it fires before `end`.
  [[nodiscard]] bool fires_by(MonotonicTime end) const {
    const auto left = std::max(Duration::zero(), end - clock_.now());
    pollfd fired{watchdog_->fd(), POLLIN, 0};
    const timespec timeout{static_cast<time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    return ::ppoll(&fired, 1, &timeout, nullptr) == 1;
  }

  SystemClock clock_;
  LadderRun run_{actuators::LadderOptions{.usable = kAllOfKilling}};
  ScratchCgroup scratch_;
  std::atomic<std::uint64_t> guard_fired_{0};
  std::unique_ptr<agent::Watchdog> watchdog_;
};

TEST_F(WatchdogPatience, ActsOnlyIfTheLoopStopsEvaluating) {
  const std::string path = scratch_.child("large");
  Hog hog(scratch_, path, kLarge);
  watchdog_->post({order_for(path)}, clock_.now() + kPatience);
  const MonotonicTime end = clock_.now() + 3 * kLong;
  MonotonicTime last_evaluation = clock_.now();
  while (last_evaluation < end) {
    ASSERT_FALSE(fires_by(last_evaluation + kBetweenEvaluations))
        << "the loop evaluates twenty times a second";
    last_evaluation = clock_.now();
    watchdog_->evaluated();
    watchdog_->announce(last_evaluation + kBetweenEvaluations);
  }
  EXPECT_TRUE(hog.alive());
  ASSERT_TRUE(fires_by(clock_.now() + kPatience)) << "the loop has stopped";
  const auto kill = watchdog_->take_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().subject, path);
  EXPECT_EQ(kill->signalled->processes, 1U);
  EXPECT_TRUE(hog.child().wait_exit());
}

// One subject recedes just when the other is met: that there was no evaluation meanwhile proves
// nothing about the second. Both must happen within the rest of the patience, which is long, with
// little growth, for emulated guests.
TEST_F(WatchdogPatience, CountsTheTimeOfEachSubjectSeparately) {
  const std::string first = scratch_.child("first"), second = scratch_.child("second");
  constexpr Duration kLonger = 5 * kLong;
  std::optional<Hog> recedes(std::in_place, scratch_, first, kFloor + mib(8));
  Hog grows(scratch_, second, kFloor - mib(8));
  watchdog_ = LadderRun::must(agent::Watchdog::create(run_.tree(), clock_, false, kLonger));
  watchdog_->post({order_for(first), order_for(second)}, clock_.now() + kPatience);
  ASSERT_FALSE(fires_by(clock_.now() + kLong / 2));
  const MonotonicTime grew = clock_.now();
  grows.grow(mib(16));
  ASSERT_TRUE(grows.wait_grown());
  recedes.reset();
  ASSERT_TRUE(fires_by(clock_.now() + kPatience));
  const auto kill = watchdog_->take_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().subject, second);
  EXPECT_GE(kill->stages.crossed, grew);
  EXPECT_GE(kill->signalled->at - grew, kLonger);
}

TEST_F(WatchdogPatience, WaitsForTheMemoryOfAGuardKill) {
  const std::string path = scratch_.child("large");
  const Hog hog(scratch_, path, kLarge);
  guard_fired_ = 3;  // before, for others
  watchdog_->heed_guard([this] { return guard_fired_.load(); });
  watchdog_->post({order_for(path)}, clock_.now() + kPatience);
  ASSERT_FALSE(fires_by(clock_.now() + kLong / 2));
  const MonotonicTime fired = clock_.now();
  ++guard_fired_;
  // The loop has not evaluated since: the order is still valid.
  ASSERT_TRUE(fires_by(clock_.now() + kPatience));
  const auto kill = watchdog_->take_kill();
  ASSERT_TRUE(kill);
  EXPECT_GE(kill->stages.crossed - fired, agent::Watchdog::kGuardRelease);
  EXPECT_GE(kill->signalled->at - kill->stages.crossed, kLong);
}

TEST_F(WatchdogPatience, OnlyTheFirstClaimCounts) {
  const std::string path = scratch_.child("large");
  const Hog hog(scratch_, path, kLarge);
  watchdog_->post({order_for(path)}, clock_.now() + kPatience);
  ASSERT_TRUE(watchdog_->claim());
  EXPECT_FALSE(fires_by(clock_.now() + 2 * kLong));
  EXPECT_TRUE(hog.alive());
}

}  // namespace
}  // namespace forestall::test
