// SPDX-License-Identifier: Apache-2.0
// When memory.high is lifted, by how much, and when it is restored.
#include "policy/throttle_lift.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace forestall::policy {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kThrottleHigh = mib(160);

// A cgroup that is read once a second.
class ThrottledCgroupReadings {
 public:
  ThrottleAction second(Bytes usage, std::uint64_t events, Duration stalled) {
    reading_.at += 1s;
    reading_.usage = usage;
    reading_.high_events += events;
    reading_.full_stall += stalled;
    return take(reading_);
  }
  ThrottleAction missing() {
    reading_.at += 1s;
    return take(std::nullopt);
  }
  // After how many such seconds this is done; 0: not within a minute.
  int seconds_until(ThrottleAction wanted, Bytes usage, std::uint64_t events, Duration stalled) {
    for (int n = 1; n <= 60; ++n) {
      if (second(usage, events, stalled) == wanted) return n;
    }
    return 0;
  }
  void lift(Bytes high) {
    limits_.lifted = true;
    limits_.present = high;
    state_ = {};
  }
  [[nodiscard]] Duration stalled() const { return stalled_; }
  [[nodiscard]] const ThrottleLiftState& state() const { return state_; }
  [[nodiscard]] MonotonicTime now() const { return reading_.at; }

 private:
  ThrottleAction take(const std::optional<ThrottleReading>& reading) {
    auto step = step_throttle_lift(state_, reading, limits_);
    state_ = step.next;
    stalled_ = step.stalled;
    return step.action;
  }

  ThrottleLimits limits_{kThrottleHigh, kThrottleHigh, 10s, false};
  ThrottleLiftState state_;
  ThrottleReading reading_{MonotonicTime(1h), {}, 0, {}};
  Duration stalled_{0};
};

// The first of the readings is the beginning of the first second.
TEST(ThrottleLift, ACgroupWithoutProgressIsLiftedAfterTheTime) {
  ThrottledCgroupReadings cgroup;
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::lift, kThrottleHigh, 1, 1s), 11);
  EXPECT_EQ(cgroup.stalled(), 10s);
  EXPECT_EQ(cgroup.second(kThrottleHigh, 1, 1s), ThrottleAction::lift) << "until it is";
}

TEST(ThrottleLift, ProgressInMoreThanAFifthOfTheTimeKeepsIt) {
  EXPECT_EQ(ThrottledCgroupReadings().seconds_until(ThrottleAction::lift, kThrottleHigh, 1, 799ms),
            0);
  EXPECT_EQ(ThrottledCgroupReadings().seconds_until(ThrottleAction::lift, kThrottleHigh, 1, 800ms),
            11);
}

TEST(ThrottleLift, AShortProgressDoesNotEndAStall) {
  ThrottledCgroupReadings cgroup;
  for (int n = 0; n < 6; ++n) cgroup.second(kThrottleHigh, 1, 1s);
  EXPECT_EQ(cgroup.second(kThrottleHigh, 1, 500ms), ThrottleAction::keep);
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::lift, kThrottleHigh, 1, 1s), 4);
}

TEST(ThrottleLift, ALongProgressBeginsTheTimeAnew) {
  ThrottledCgroupReadings cgroup;
  for (int n = 0; n < 6; ++n) cgroup.second(kThrottleHigh, 1, 1s);
  for (int n = 0; n < 2; ++n) cgroup.second(kThrottleHigh, 1, 0s);
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::lift, kThrottleHigh, 1, 1s), 10);
}

TEST(ThrottleLift, AStallThatIsNotOfMemoryHighKeepsIt) {
  ThrottledCgroupReadings without_events;
  EXPECT_EQ(without_events.seconds_until(ThrottleAction::lift, kThrottleHigh, 0, 1s), 0);
  ThrottledCgroupReadings below;
  EXPECT_EQ(below.seconds_until(ThrottleAction::lift, mib(150) - Bytes{4096}, 1, 1s), 0);
  ThrottledCgroupReadings not_quite_below;
  EXPECT_EQ(not_quite_below.seconds_until(ThrottleAction::lift, mib(150), 1, 1s), 11);
}

// A task sleeps for 2 s at most, so not every second has an event.
TEST(ThrottleLift, AnEventCountsForFiveSeconds) {
  ThrottledCgroupReadings cgroup;
  int done = 0;
  for (int n = 1; n <= 40 && done == 0; ++n) {
    const std::uint64_t events = n % 5 == 0 ? 1 : 0;
    if (cgroup.second(kThrottleHigh, events, 1s) == ThrottleAction::lift) done = n;
  }
  EXPECT_EQ(done, 14) << "from the fourth reading on";
}

TEST(ThrottleLift, AMissingReadingBeginsTheTimeAnew) {
  ThrottledCgroupReadings cgroup;
  for (int n = 0; n < 10; ++n) {
    ASSERT_EQ(cgroup.second(kThrottleHigh, 1, 1s), ThrottleAction::keep);
  }
  EXPECT_EQ(cgroup.missing(), ThrottleAction::keep);
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::lift, kThrottleHigh, 1, 1s), 11);
}

TEST(ThrottleLift, ACounterThatWentBackIsAMissingReading) {
  ThrottledCgroupReadings cgroup;
  for (int n = 0; n < 10; ++n) cgroup.second(kThrottleHigh, 1, 1s);
  EXPECT_EQ(cgroup.second(kThrottleHigh, 1, -5s), ThrottleAction::keep);
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::lift, kThrottleHigh, 1, 1s), 10);
}

TEST(ThrottleLift, AnEventBeforeTheFirstReadingCounts) {
  ThrottleLiftState woken;
  woken.event_at = MonotonicTime(1h);
  const auto step = step_throttle_lift(woken, ThrottleReading{MonotonicTime(1h), {}, 7, {}},
                                       {kThrottleHigh, kThrottleHigh, 10s, false});
  EXPECT_FALSE(is_idle(step.next, MonotonicTime(1h)));
  EXPECT_TRUE(is_idle(step.next, MonotonicTime(1h + 6s)));
}

TEST(ThrottleLift, ItIsRestoredAfterTheTimeBelowIt) {
  ThrottledCgroupReadings cgroup;
  cgroup.lift(mib(300));
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::restore, kThrottleHigh, 0, 0s), 0)
      << "it would be throttled at once";
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::restore, mib(140), 0, 0s), 10);
}

TEST(ThrottleLift, UsageThatReturnsBeginsTheTimeOfCalmAnew) {
  ThrottledCgroupReadings cgroup;
  cgroup.lift(mib(300));
  for (int n = 0; n < 9; ++n) cgroup.second(mib(140), 0, 0s);
  cgroup.second(mib(170), 0, 0s);
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::restore, mib(140), 0, 0s), 10);
}

TEST(ThrottleLift, ALiftedOneIsLiftedFurther) {
  ThrottledCgroupReadings cgroup;
  cgroup.lift(mib(300));
  EXPECT_EQ(cgroup.seconds_until(ThrottleAction::lift, mib(300), 1, 1s), 11);
}

TEST(ThrottleLift, WithoutEventsThereIsNothingToRead) {
  ThrottledCgroupReadings cgroup;
  EXPECT_FALSE(is_idle(cgroup.state(), cgroup.now())) << "nothing was read";
  cgroup.second(mib(10), 0, 0s);
  EXPECT_TRUE(is_idle(cgroup.state(), cgroup.now()));
  cgroup.second(mib(10), 1, 0s);
  EXPECT_FALSE(is_idle(cgroup.state(), cgroup.now()));
  for (int n = 0; n < 6; ++n) cgroup.second(mib(10), 0, 0s);
  EXPECT_TRUE(is_idle(cgroup.state(), cgroup.now()));
}

TEST(LiftedHigh, TakesAQuarterOfTheHeadroom) {
  EXPECT_EQ(lifted_high({mib(161), std::nullopt, mib(400)}, kThrottleHigh), mib(261));
  EXPECT_EQ(lifted_high({mib(150), std::nullopt, mib(400)}, kThrottleHigh), mib(260));
}

TEST(LiftedHigh, IsMemoryMaxAtMost) {
  EXPECT_EQ(lifted_high({mib(161), mib(200), mib(400)}, kThrottleHigh), mib(200));
  EXPECT_EQ(lifted_high({mib(161), kThrottleHigh, mib(400)}, kThrottleHigh), std::nullopt);
}

TEST(LiftedHigh, WithoutHeadroomThereIsNone) {
  EXPECT_EQ(lifted_high({mib(161), mib(200), mib(16) - Bytes{4}}, kThrottleHigh), std::nullopt);
  EXPECT_EQ(lifted_high({mib(161), mib(200), mib(16)}, kThrottleHigh), mib(165));
  EXPECT_EQ(lifted_high({mib(161), std::nullopt, Bytes{-1}}, kThrottleHigh), std::nullopt);
}

TEST(LiftReserve, IsTheHighestThresholdThatEvicts) {
  std::vector<Threshold> thresholds(3);
  thresholds[0].limit = Limit::bytes(mib(100));
  thresholds[1].limit = Limit::share(0.5F);
  thresholds[1].response = Response::warn;
  thresholds[2].limit = Limit::bytes(mib(700));
  thresholds[2].signal = Signal::nodefs_available;
  EXPECT_EQ(lift_reserve(thresholds, gib(1)), mib(100));
  thresholds[1].response = Response::evict;
  EXPECT_EQ(lift_reserve(thresholds, gib(1)), mib(512));
  EXPECT_EQ(lift_reserve({}, gib(1)), Bytes{});
}

TEST(LiftHeadroom, IsTheLesserOfTheTwoMeasures) {
  NodeSample node;
  node.capacity = mib(1000);
  node.usage = mib(700);
  node.inactive_file = mib(100);
  node.kernel_available = mib(500);
  EXPECT_EQ(lift_headroom(node, mib(100)), mib(300)) << "capacity minus working set";
  node.kernel_available = mib(250);
  EXPECT_EQ(lift_headroom(node, mib(100)), mib(150)) << "MemAvailable";
  EXPECT_EQ(lift_headroom(node, mib(300)), mib(-50));
}

TEST(LiftHeadroom, AnUnknownValueLeavesItUnknown) {
  NodeSample node;
  node.capacity = node.usage = node.inactive_file = node.kernel_available = mib(1);
  ASSERT_TRUE(lift_headroom(node, Bytes{}));
  for (auto each : {&NodeSample::capacity, &NodeSample::usage, &NodeSample::inactive_file,
                    &NodeSample::kernel_available}) {
    NodeSample unknown = node;
    unknown.*each = std::nullopt;
    EXPECT_EQ(lift_headroom(unknown, Bytes{}), std::nullopt);
  }
}

}  // namespace
}  // namespace forestall::policy
