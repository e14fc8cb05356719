// SPDX-License-Identifier: Apache-2.0
// When the watchdog acts on its orders: by the time since the loop's last evaluation, counted for
// each subject. On real memory, with orders made by hand and the test in place of the loop.
//
// The patience is longer than the agent's, so that a test without CPU for a moment does not
// evaluation like a loop that hangs.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

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
    run_.pin({order.victim.sample});
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
  watchdog_->defer_to_guard([this] { return guard_fired_.load(); });
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

// Time that stands still. `on_thread` runs on each call of another thread than the test's.
class SteppedClock final : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override {
    if (on_thread && std::this_thread::get_id() != test_) on_thread();
    return MonotonicTime(Duration(now_.load()));
  }
  void advance(Duration by) { now_ += by.count(); }
  std::function<void()> on_thread;

 private:
  const std::thread::id test_ = std::this_thread::get_id();
  std::atomic<std::int64_t> now_ = to_ns(SystemClock().now());
};

// Stops the thread at points between its reading of the subject and its signals: there the test
// does what the loop could do at that very moment.
class WatchdogClaim : public WatchdogPatience {
 protected:
  ~WatchdogClaim() override { watchdog_.reset(); }

  // `before` runs when the thread is about to find the loop late, `within` after its claim.
  void run(std::function<void()> before, std::function<void()> within) {
    stepped_.on_thread = [this, within = std::move(within)] {
      if (rounds_ < 3 || ++calls_ != 1) return;
      within();
    };
    watchdog_ = LadderRun::must(agent::Watchdog::create(run_.tree(), stepped_, false, kLong));
    acting_ = watchdog_.get();
    // Called in each round, after the thread has read the time.
    watchdog_->defer_to_guard([this, before = std::move(before)] {
      if (std::this_thread::get_id() == test_) return std::uint64_t{0};
      const int round = ++rounds_;
      if (round == 2) stepped_.advance(2 * kLong);
      if (round == 3) before();
      if (round == 3) ::eventfd_write(reached_.get(), 1);
      return std::uint64_t{0};
    });
    watchdog_->post({order_for(path_)}, stepped_.now() + kPatience);
    pollfd reached{reached_.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&reached, 1, -1), 1);
  }
  // Ends the thread after its round. Whether it has killed.
  [[nodiscard]] bool has_killed() {
    const UniqueFd fired(::dup(watchdog_->fd()));
    watchdog_.reset();
    pollfd killed{fired.get(), POLLIN, 0};
    return ::poll(&killed, 1, 0) == 1;
  }

  const std::thread::id test_ = std::this_thread::get_id();
  SteppedClock stepped_;
  agent::Watchdog* acting_ = nullptr;  // valid on its thread until that ends
  const UniqueFd reached_{::eventfd(0, EFD_CLOEXEC)};
  int rounds_ = 0;  // the thread's
  int calls_ = 0;   // the thread's
  const std::string path_ = scratch_.child("large");
  Hog hog_{scratch_, path_, kLarge};
};

TEST_F(WatchdogClaim, DoesNotActOnOrdersThatAreWithdrawnMeanwhile) {
  run([this] { acting_->withdraw(); }, [] {});
  EXPECT_FALSE(has_killed());
  EXPECT_TRUE(hog_.alive());
}

TEST_F(WatchdogClaim, DoesNotActOnOrdersThatAreReplacedMeanwhile) {
  const auto next = order_for(path_);
  run([&] { acting_->post({next}, stepped_.now() + kPatience); }, [] {});
  EXPECT_FALSE(has_killed());
  EXPECT_TRUE(hog_.alive());
}

TEST_F(WatchdogClaim, TheLoopTakesAKillThatBeganBeforeItWithdrewTheOrders) {
  std::atomic<bool> claimed{true};
  run([] {},
      [&] {
        acting_->withdraw();
        claimed = acting_->claim();
      });
  ASSERT_TRUE(fires_by(clock_.now() + kPatience));
  EXPECT_FALSE(claimed) << "two victims for one crossing";
  ASSERT_TRUE(watchdog_->take_kill());
  EXPECT_TRUE(watchdog_->claim()) << "its kill is taken";
}

TEST_F(WatchdogClaim, DoesNotActIfTheLoopEvaluatesMeanwhile) {
  run([] {}, [&] { acting_->evaluated(); });
  EXPECT_FALSE(has_killed());
  EXPECT_TRUE(hog_.alive());
}

}  // namespace
}  // namespace forestall::test
