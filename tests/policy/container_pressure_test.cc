// SPDX-License-Identifier: Apache-2.0
// The staged response to memory pressure of single containers. "KEP" is KEP-5986
// (kubernetes/enhancements pull request 6141).
#include "policy/container_pressure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace forestall::policy {
namespace {

using namespace std::chrono_literals;
using Stage = PressureStage;

constexpr Bytes kContainerHigh = mib(160);
constexpr Bytes kContainerMax = mib(200);

PressureStages stages_of(std::initializer_list<Stage> list) {
  PressureStages stages;
  for (const Stage each : list) stages.insert(each);
  return stages;
}

const PressureStages kAllStages =
    stages_of({Stage::reclaim, Stage::lift, Stage::evict, Stage::kill});

// 10 events a second, 20 events a second, 40 %.
ContainerPressureRule pressure_rule(PressureStages stages = kAllStages) {
  return {{10.0, 20.0, 40.0}, stages, 30s, 5s, 10s, 20s, 30s};
}

struct OneSecond {
  std::uint64_t high = 0;
  std::uint64_t max = 0;
  Duration stall{0};
};
constexpr OneSecond kQuiet{};
constexpr OneSecond kStorm{1'000'000, 1'000'000, 1s};

// A container that is read once a second.
class ContainerStory {
 public:
  explicit ContainerStory(const ContainerPressureRule& rule = pressure_rule()) : rule_(rule) {
    take(reading_);
  }
  const ContainerPressureStep& second(const OneSecond& what) {
    pass(what);
    return take(reading_);
  }
  const ContainerPressureStep& missing(const OneSecond& what = kStorm) {
    pass(what);
    return take(std::nullopt);
  }
  void pass(const OneSecond& what) {
    reading_.at += 1s;
    add(reading_.high_events, what.high);
    add(reading_.max_events, what.max);
    add(reading_.some_stall, what.stall);
  }
  // After how many such seconds the action is `wanted`; 0: not within five minutes.
  int seconds_until(Stage wanted, const OneSecond& what) {
    for (int n = 1; n <= 300; ++n) {
      if (second(what).action == wanted) return n;
    }
    return 0;
  }
  // The actions of so many seconds, each once: "reclaim lift".
  std::string actions(int seconds, const OneSecond& what) {
    std::string list;
    Stage last = Stage::none;
    for (int n = 0; n < seconds; ++n) {
      const Stage action = second(what).action;
      if (action == last || action == Stage::none) continue;
      last = action;
      list += (list.empty() ? "" : " ") + std::string(to_string(action));
    }
    return list;
  }
  ContainerPressureReading& reading() { return reading_; }
  PressureScene& scene() { return scene_; }
  [[nodiscard]] const ContainerPressureStep& step() const { return step_; }
  [[nodiscard]] bool idle() const { return is_idle(rule_, step_.next, scene_); }

 private:
  template <typename T>
  static void add(std::optional<T>& counter, T amount) {
    if (counter) *counter += amount;
  }
  const ContainerPressureStep& take(const std::optional<ContainerPressureReading>& reading) {
    step_ = step_container_pressure(rule_, step_.next, reading, scene_);
    return step_;
  }

  const ContainerPressureRule rule_;
  ContainerPressureReading reading_{CgroupId{7}, MonotonicTime(1h), 5000,           700,
                                    80s,         kContainerHigh,    kContainerHigh, kContainerMax};
  PressureScene scene_{false, {}, {}};
  ContainerPressureStep step_;
};

std::optional<double> value(const ContainerPressureStep& step, PressureSignal signal) {
  return step.values[static_cast<std::size_t>(signal)];
}

// KEP: rates are differences of two readings of the eviction loop, 10 s apart; PSI is avg10.
TEST(ContainerPressureValue, IsTheAverageOfTenSeconds) {
  ContainerStory container;
  EXPECT_EQ(value(container.step(), PressureSignal::high), std::nullopt) << "one reading";
  EXPECT_DOUBLE_EQ(*value(container.second({50, 20, 500ms}), PressureSignal::high), 5);
  EXPECT_DOUBLE_EQ(*value(container.step(), PressureSignal::max), 2);
  EXPECT_DOUBLE_EQ(*value(container.step(), PressureSignal::psi), 5);
  for (int n = 0; n < 30; ++n) container.second({50, 20, 500ms});
  EXPECT_DOUBLE_EQ(*value(container.step(), PressureSignal::high), 50);
  EXPECT_DOUBLE_EQ(*value(container.step(), PressureSignal::max), 20);
  EXPECT_DOUBLE_EQ(*value(container.step(), PressureSignal::psi), 50);
  EXPECT_LE(container.step().next.readings.size(), 11U);
  for (int n = 0; n < 10; ++n) container.second(kQuiet);
  EXPECT_DOUBLE_EQ(*value(container.step(), PressureSignal::high), 0) << "it is forgotten";
}

struct SignalRow {
  const char* what;
  OneSecond each;
  std::optional<PressureSignal> worst;
};

// KEP: "exceeds", and any of the signals alone.
TEST(ContainerPressureValue, EachSignalAloneIsPressureAboveItsThreshold) {
  for (const SignalRow& row : {
           SignalRow{"high at its threshold", {10, 0, 0s}, std::nullopt},
           {"high above it", {11, 0, 0s}, PressureSignal::high},
           {"max at its threshold", {0, 20, 0s}, std::nullopt},
           {"max above it", {0, 21, 0s}, PressureSignal::max},
           {"PSI at its threshold", {0, 0, 400ms}, std::nullopt},
           {"PSI above it", {0, 0, 401ms}, PressureSignal::psi},
           {"the largest ratio is named", {11, 42, 700ms}, PressureSignal::max},
       }) {
    ContainerStory container;
    for (int n = 0; n < 12; ++n) container.second(row.each);
    const auto& worst = container.step().worst;
    ASSERT_EQ(worst.has_value(), row.worst.has_value()) << row.what;
    if (worst) {
      EXPECT_EQ(worst->signal, *row.worst) << row.what;
    }
  }
}

// KEP: 0 turns a signal off.
TEST(ContainerPressureValue, ASignalWithoutThresholdCausesNothing) {
  ContainerPressureRule rule = pressure_rule();
  rule.thresholds[static_cast<std::size_t>(PressureSignal::max)].reset();
  EXPECT_EQ(ContainerStory(rule).actions(100, {0, 1000, 0s}), "");
}

TEST(ContainerPressureStages, FollowEachOtherAndEachHasItsTime) {
  ContainerStory container;
  EXPECT_EQ(container.seconds_until(Stage::reclaim, {50, 0, 0s}), 3) << "150 events in 10 s";
  EXPECT_EQ(container.seconds_until(Stage::lift, {50, 0, 0s}), 5);
  EXPECT_EQ(container.seconds_until(Stage::evict, {50, 0, 0s}), 25) << "the grace period";
  EXPECT_EQ(container.seconds_until(Stage::kill, {50, 0, 0s}), 20);
  EXPECT_EQ(container.actions(1000, {50, 0, 0s}), "kill") << "the last one stays";
}

TEST(ContainerPressureStages, AFastFillIsSeenWithinASecond) {
  EXPECT_EQ(ContainerStory().seconds_until(Stage::reclaim, kStorm), 1);
}

// KEP, stage 1: only if a memory.high throttles; relaxing it helps nothing else.
TEST(ContainerPressureStages, OnlyAThrottledContainerIsLifted) {
  ContainerStory at_max;
  at_max.reading().high = kNoMemoryLimit;
  EXPECT_EQ(at_max.actions(100, {0, 50, 0s}), "reclaim evict kill");
  ContainerStory lifted;
  lifted.reading().high = kContainerMax;
  EXPECT_EQ(lifted.actions(100, {0, 50, 0s}), "reclaim evict kill");
  // A set that stays above memory.high makes PSI and few events; the KEP evicts it unrelaxed.
  EXPECT_EQ(ContainerStory().actions(100, {0, 0, 900ms}), "lift evict kill")
      << "reclaim would raise PSI";
}

// Others may have filled it.
TEST(ContainerPressureStages, PressureOfALimitAboveIsOnlyReported) {
  ContainerStory container;
  container.reading().usage = mib(50);
  EXPECT_EQ(container.actions(100, {0, 0, 900ms}), "");
  EXPECT_TRUE(container.step().worst);
  EXPECT_EQ(container.step().cause, PressureCause::limit_above);
}

// A memory.high that cannot be read may be the limit that throttles.
TEST(ContainerPressureStages, AnUnknownLimitIsNotALimitAbove) {
  for (const auto limit : {&ContainerPressureReading::high, &ContainerPressureReading::max}) {
    ContainerStory container;
    container.reading().usage = mib(50);
    container.reading().*limit = std::nullopt;
    EXPECT_EQ(container.actions(100, {0, 0, 900ms}), "");
    EXPECT_EQ(container.step().cause, PressureCause::unknown);
  }
}

// What is reclaimed may be read again, which is pressure.
TEST(ContainerPressureStages, ReclaimEndsAfterItsTime) {
  ContainerStory container(pressure_rule(stages_of({Stage::reclaim, Stage::lift})));
  container.reading().high = kNoMemoryLimit;
  int seconds = 0;
  for (int n = 0; n < 100; ++n) seconds += container.second({0, 50, 0s}).action == Stage::reclaim;
  EXPECT_EQ(seconds, 5);
  for (int n = 0; n < 12; ++n) container.second(kQuiet);
  EXPECT_EQ(container.seconds_until(Stage::reclaim, {0, 50, 0s}), 5) << "new pressure";
}

// A burst is remembered for 10 s.
TEST(ContainerPressureStages, NothingIsEvictedInAQuietSecond) {
  ContainerStory container;
  for (int n = 0; n < 90; ++n) {
    const Stage action = container.second(n % 9 == 0 ? kStorm : kQuiet).action;
    EXPECT_TRUE(action < Stage::evict || n % 9 == 0) << n;
  }
  EXPECT_EQ(container.step().next.stage, Stage::kill);
}

TEST(ContainerPressureStages, TheLiftIsHeldForItsTimeAfterItHappened) {
  ContainerStory container;
  container.seconds_until(Stage::lift, kStorm);
  container.reading().high = kContainerMax;
  container.reading().usage = kContainerMax;
  EXPECT_EQ(container.second(kStorm).action, Stage::none);
  EXPECT_EQ(container.step().next.stage, Stage::lift);
  EXPECT_EQ(container.seconds_until(Stage::evict, kStorm), 24);
}

// KEP: one timer of a pod, which any signal keeps and only all together end.
TEST(ContainerPressureStages, AnotherSignalContinuesTheTime) {
  ContainerStory container;
  for (int n = 0; n < 20; ++n) container.second({50, 0, 0s});
  EXPECT_EQ(container.seconds_until(Stage::evict, {0, 60, 0s}), 13) << "33 s in all";
  ContainerStory calmed;
  for (int n = 0; n < 25; ++n) calmed.second({50, 0, 0s});
  for (int n = 0; n < 10; ++n) calmed.second(kQuiet);
  EXPECT_EQ(calmed.step().next.stage, Stage::none);
  EXPECT_EQ(calmed.seconds_until(Stage::evict, {50, 0, 0s}), 33) << "begins anew";
}

TEST(ContainerPressureStages, AMissingReadingCausesNothingAndItsTimeDoesNotCount) {
  ContainerStory container;
  container.seconds_until(Stage::lift, kStorm);
  for (int n = 0; n < 300; ++n) EXPECT_EQ(container.missing().action, Stage::none);
  EXPECT_EQ(container.second(kStorm).action, Stage::none) << "no value yet";
  EXPECT_EQ(container.second(kStorm).action, Stage::reclaim) << "it begins anew";
  EXPECT_EQ(container.seconds_until(Stage::evict, kStorm), 30);
}

TEST(ContainerPressureStages, AStageOutlivesAFewMissingReadings) {
  ContainerStory container;
  container.seconds_until(Stage::lift, kStorm);
  for (int n = 0; n < 3; ++n) EXPECT_EQ(container.missing().action, Stage::none);
  EXPECT_EQ(container.second(kStorm).action, Stage::lift);
  EXPECT_EQ(container.seconds_until(Stage::evict, kStorm), 25) << "the gap does not count";
}

TEST(ContainerPressureStages, AnUnknownValueTriggersNothing) {
  ContainerStory container;
  container.seconds_until(Stage::lift, {50, 0, 0s});
  container.reading().high_events.reset();
  for (int n = 0; n < 100; ++n) {
    EXPECT_EQ(container.second(kQuiet).action, Stage::none);
    EXPECT_EQ(container.step().next.stage, n < 10 ? Stage::lift : Stage::none) << n;
  }
  ContainerStory partly;  // the others count
  partly.reading().high_events.reset();
  EXPECT_EQ(partly.actions(100, {0, 50, 0s}), "reclaim lift evict kill");
}

// PSI is off on some hosts.
TEST(ContainerPressureStages, AValueThatIsNeverKnownKeepsNoTimeAndNoLift) {
  ContainerStory container;
  container.reading().some_stall.reset();
  for (int burst = 0; burst < 20; ++burst) {
    EXPECT_EQ(container.second(kStorm).action, Stage::reclaim);
    for (int n = 0; n < 60; ++n) container.second(kQuiet);
  }
  container.scene().lifted_from = kContainerHigh;
  container.scene().working_set = mib(100);
  for (int n = 0; n < 30; ++n) container.second(kQuiet);
  EXPECT_TRUE(container.step().restore);
  ContainerPressureRule psi_rule = pressure_rule();
  psi_rule.thresholds = {std::nullopt, std::nullopt, 40.0};
  ContainerStory only_psi(psi_rule);  // and its owner turns PSI off after the lift
  only_psi.reading().some_stall.reset();
  only_psi.scene().lifted_from = kContainerHigh;
  only_psi.scene().working_set = mib(100);
  for (int n = 0; n < 60; ++n) only_psi.second(kQuiet);
  EXPECT_TRUE(only_psi.step().restore);
  ContainerStory blind;  // all of them
  blind.reading() = {CgroupId{7}, MonotonicTime(1h), {}, {}, {}, mib(100), {}, {}};
  blind.scene().lifted_from = kContainerHigh;
  blind.scene().working_set = mib(100);
  for (int n = 0; n < 300; ++n) EXPECT_FALSE(blind.second(kQuiet).restore);
}

// An unknown reading between the two hides the order of the others.
TEST(ContainerPressureValue, ACounterThatFellIsUnknown) {
  ContainerStory container;
  container.second(kQuiet);
  container.reading().high_events.reset();
  container.second(kQuiet);
  container.reading().high_events = 50;
  container.second(kQuiet);
  EXPECT_EQ(value(container.step(), PressureSignal::high), std::nullopt);
}

// KEP: a changed start time of the container resets the baseline.
TEST(ContainerPressureStages, ARestartedContainerBeginsAnew) {
  ContainerStory container;
  container.seconds_until(Stage::evict, kStorm);
  container.reading().cgroup = CgroupId{8};
  EXPECT_EQ(container.second(kStorm).action, Stage::none);
  EXPECT_EQ(container.step().next.over_for, 0s);
  ContainerStory counters;
  counters.seconds_until(Stage::evict, kStorm);
  counters.reading().max_events = 0;
  EXPECT_EQ(counters.second(kQuiet).action, Stage::none);
  EXPECT_EQ(counters.step().next.stage, Stage::none);
}

TEST(ContainerPressureStages, AStoppedAgentCountsNoTime) {
  ContainerStory container;
  container.seconds_until(Stage::lift, kStorm);
  container.reading().at += 1h;
  container.second(kStorm);
  EXPECT_EQ(container.step().worst, std::nullopt) << "an hour of events is no rate";
  EXPECT_EQ(container.seconds_until(Stage::evict, kStorm), 31) << "begins anew";
}

TEST(ContainerPressureCause, NamesWhoseMemoryIsShort) {
  ContainerStory own;
  EXPECT_EQ(own.second(kStorm).cause, PressureCause::own_limit);
  ContainerStory above;
  above.reading().usage = mib(20);
  EXPECT_EQ(above.second({0, 0, 1s}).cause, PressureCause::limit_above);
  above.reading().usage.reset();
  EXPECT_EQ(above.second({0, 0, 1s}).cause, PressureCause::unknown);
  own.scene().node_short = true;
  EXPECT_EQ(own.second(kStorm).cause, PressureCause::node);
  own.scene().node_short.reset();
  EXPECT_EQ(own.second(kStorm).cause, PressureCause::unknown);
}

TEST(ContainerPressureCause, AShortNodeStopsTheStages) {
  for (const std::optional<bool> node : {std::optional<bool>(true), std::optional<bool>()}) {
    ContainerStory container;
    container.seconds_until(Stage::lift, kStorm);
    container.scene().node_short = node;
    EXPECT_EQ(container.actions(1000, kStorm), "");
    EXPECT_TRUE(container.step().worst) << "it is still reported";
    container.scene().node_short = false;
    EXPECT_EQ(container.second(kStorm).action, Stage::reclaim) << "begins anew";
    EXPECT_EQ(container.seconds_until(Stage::evict, kStorm), 30);
  }
}

// "The worst state always reaches every stage that is allowed."
TEST(ContainerPressureStages, TheWorstStateReachesEveryAllowedStage) {
  for (unsigned allowed = 0; allowed < 16; ++allowed) {
    for (unsigned impossible = 0; impossible < 16; ++impossible) {
      ContainerPressureRule rule = pressure_rule({});
      PressureStages cannot;
      std::string expected;
      for (const Stage each : kPressureStages) {
        const unsigned bit = 1U << (static_cast<unsigned>(each) - 1U);
        if ((impossible & bit) != 0) cannot.insert(each);
        if ((allowed & bit) == 0) continue;
        rule.stages.insert(each);
        if ((impossible & bit) != 0) continue;
        expected += (expected.empty() ? "" : " ") + std::string(to_string(each));
      }
      ContainerStory container(rule);
      container.scene().impossible = cannot;
      EXPECT_EQ(container.actions(100, kStorm), expected) << allowed << " without " << impossible;
    }
  }
}

TEST(ContainerPressureLift, IsTakenBackAfterTheCalmTime) {
  ContainerStory container;
  container.seconds_until(Stage::lift, kStorm);
  container.reading().high = kContainerMax;
  container.scene().lifted_from = kContainerHigh;
  for (int n = 0; n < 40; ++n) EXPECT_FALSE(container.second(kQuiet).restore) << "unknown";
  container.scene().working_set = kContainerMax;
  EXPECT_FALSE(container.second(kQuiet).restore) << "still above";
  container.scene().working_set = mib(151);
  EXPECT_FALSE(container.second(kQuiet).restore) << "a sixteenth below is near";
  container.scene().working_set = mib(149);
  EXPECT_TRUE(container.second(kQuiet).restore) << "page cache does not count";
  container.missing(kQuiet);
  for (int n = 0; n < 30; ++n) EXPECT_FALSE(container.second(kQuiet).restore) << "begins anew";
  EXPECT_TRUE(container.second(kQuiet).restore);
  container.scene().lifted_from.reset();
  EXPECT_FALSE(container.second(kQuiet).restore) << "there is none";
}

TEST(ContainerPressureLift, IsTakenBackAtOnceWhileTheNodeIsShort) {
  ContainerStory container;
  container.seconds_until(Stage::lift, kStorm);
  container.scene().lifted_from = kContainerHigh;
  container.scene().node_short = true;
  container.scene().working_set = kContainerHigh;
  EXPECT_FALSE(container.second(kStorm).restore) << "it uses all of it";
  container.scene().working_set = kContainerHigh - Bytes{1};
  EXPECT_TRUE(container.second(kStorm).restore);
  container.scene().node_short.reset();
  EXPECT_FALSE(container.second(kStorm).restore) << "unknown";
}

TEST(ContainerPressureLift, NeedsAllThatTheContainerMayUseInAddition) {
  EXPECT_EQ(full_lift({mib(190), mib(200), mib(40), mib(160)}), mib(200));
  EXPECT_EQ(full_lift({mib(190), mib(200), mib(40) - Bytes{1}, mib(160)}), std::nullopt);
  EXPECT_EQ(full_lift({mib(160), std::nullopt, gib(100), mib(160)}), std::nullopt) << "no limit";
  EXPECT_EQ(full_lift({mib(160), mib(200), mib(-1), mib(160)}), std::nullopt);
}

TEST(ContainerPressureIdle, NeedsAWindowWithoutEvents) {
  ContainerStory container;
  for (int n = 0; n < 9; ++n) {
    container.second({0, 0, 100ms});
    EXPECT_FALSE(container.idle());
  }
  container.second({0, 0, 100ms});
  EXPECT_TRUE(container.idle()) << "PSI at a quarter of its threshold";
  container.second({1, 0, 0s});
  EXPECT_FALSE(container.idle());
  ContainerStory stalled;
  for (int n = 0; n < 11; ++n) stalled.second({0, 0, 210ms});
  EXPECT_FALSE(stalled.idle());
  ContainerStory lifted;
  lifted.scene().lifted_from = kContainerHigh;
  for (int n = 0; n < 11; ++n) lifted.second(kQuiet);
  EXPECT_FALSE(lifted.idle());
}

// KEP, "Non-goals" and "Eviction order".
TEST(ContainerPressureOrder, IsThatOfTheKep) {
  const std::vector<PressureOrder> order{
      {QosClass::best_effort, 1000, 1.1, "/a"}, {QosClass::burstable, -5, 1.1, "/b"},
      {QosClass::burstable, 0, 9.0, "/c"},      {QosClass::burstable, 0, 2.0, "/d"},
      {QosClass::burstable, 0, 2.0, "/e"},      {QosClass::burstable, std::nullopt, 99, "/f"},
      {std::nullopt, std::nullopt, 99, "/g"},
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < order.size(); ++j) {
      EXPECT_EQ(order[i] < order[j], i < j) << order[i].path << order[j].path;
    }
  }
}

TEST(ContainerPressureOrder, GuaranteedAndStaticPodsAreExempt) {
  Pod pod;
  EXPECT_FALSE(is_exempt_from_pressure(pod)) << "BestEffort";
  pod.status_qos = QosClass::burstable;
  EXPECT_FALSE(is_exempt_from_pressure(pod));
  for (const PodOrigin origin : {PodOrigin::static_file, PodOrigin::mirror}) {
    pod.origin = origin;
    EXPECT_TRUE(is_exempt_from_pressure(pod));
  }
  pod.origin = PodOrigin::api;
  pod.status_qos = QosClass::guaranteed;
  EXPECT_TRUE(is_exempt_from_pressure(pod));
}

// Random readings with gaps: a stage follows only a reading that shows pressure, on a calm node.
TEST(ContainerPressureProperty, NothingIsDoneWithoutAReadingThatShowsPressure) {
  std::mt19937 random(5986);
  const auto below = [&](unsigned end) { return random() % end; };
  for (int run = 0; run < 200; ++run) {
    ContainerStory container;
    for (int n = 0; n < 200; ++n) {
      const OneSecond what{below(40), below(60), std::chrono::milliseconds(below(1000))};
      container.scene().node_short = below(4) == 0   ? std::optional<bool>()
                                     : below(4) == 0 ? std::optional(true)
                                                     : std::optional(false);
      const bool misses = below(5) == 0;
      const Stage before = container.step().next.stage;
      const auto& step = misses ? container.missing(what) : container.second(what);
      const bool may_act = !misses && step.worst && container.scene().node_short == false;
      EXPECT_TRUE(may_act || step.action == Stage::none);
      EXPECT_TRUE(may_act || step.next.stage <= before);
      EXPECT_FALSE(step.restore);
      EXPECT_TRUE(step.action < Stage::evict || step.next.over_for >= 30s);
    }
  }
}

}  // namespace
}  // namespace forestall::policy
