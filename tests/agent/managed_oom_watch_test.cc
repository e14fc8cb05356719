// SPDX-License-Identifier: Apache-2.0
// Rulesets from systemd's properties: changes, units that come and go, a bus that goes away.
#include "daemon/managed_oom_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/dbus_managed_oom.h"
#include "exports/log.h"
#include "support/fake_unit_bus.h"

namespace forestall::agent {
namespace {

using namespace std::chrono_literals;
using daemon::ManagedOomTimes;
using daemon::ManagedOomWatch;
using test::FakeUnit;
using test::FakeUnitBus;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FakeUnit managed_unit(const std::string& cgroup) {
  FakeUnit unit;
  unit.cgroup = cgroup;
  unit.pressure = "kill";
  return unit;
}

constexpr ManagedOomTimes kRarely{1h, 1ms, 1ms, 1h};

class ManagedOomWatchTest : public ::testing::Test {
 protected:
  void watch(ManagedOomTimes times, const std::optional<rulesets::OomdConf>& conf = {{}}) {
    watch_ = ManagedOomWatch::start(log_, clock_,
                                    std::make_unique<daemon::DbusManagedOom>(bus_.address()), times)
                 .value();
    watch_->follow(conf);
  }
  // Names of the rulesets that the loop takes next.
  std::vector<std::string> next() {
    pollfd fd{watch_->fd(), POLLIN, 0};
    ::poll(&fd, 1, -1);
    EXPECT_TRUE(watch_->take());
    return names();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const rulesets::Ruleset& each : watch_->in_force()) found.push_back(each.name);
    return found;
  }

  SystemClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  FakeUnitBus bus_{{{"a.service", managed_unit("/a")}}};
  std::unique_ptr<ManagedOomWatch> watch_;
};

TEST_F(ManagedOomWatchTest, UnitsThatComeAndGoChangeTheRulesets) {
  watch(kRarely);
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
  FakeUnit both = managed_unit("/b");
  both.swap = "kill";
  bus_.set("b.service", both);
  bus_.signal_new("b.service");
  EXPECT_THAT(next(), ElementsAre("ManagedOOMSwap", "ManagedOOMMemoryPressure /a",
                                  "ManagedOOMMemoryPressure /b"));
  bus_.remove("a.service");
  bus_.signal_change("a.service");
  EXPECT_THAT(next(), ElementsAre("ManagedOOMSwap", "ManagedOOMMemoryPressure /b"));
}

// `systemctl set-property`
TEST_F(ManagedOomWatchTest, AChangeWithoutASignalIsFound) {
  watch({20ms, 1ms, 1ms, 1h});
  next();
  bus_.set("a.service", {});
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_EQ(watch_->state()->problem, "");
}

// It takes longer than 4 us: a call waits for the thread of the bus.
TEST_F(ManagedOomWatchTest, ALongReadingOfAllUnitsIsFollowedByALongPause) {
  watch({2ms, 1us, 1ms, 1h});
  next();
  const MonotonicTime first = *watch_->state()->read;
  bus_.set("a.service", managed_unit("/other"));
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /other"));
  EXPECT_GE(*watch_->state()->read - first, 4ms);
}

TEST_F(ManagedOomWatchTest, WhatTheLoopCannotUseIsOfferedAgain) {
  watch({20ms, 1ms, 1ms, 1h});
  next();
  watch_->refused();
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
}

TEST_F(ManagedOomWatchTest, ReadingsHaveALeastInterval) {
  watch({1h, 500ms, 1ms, 1h});
  next();
  const MonotonicTime first = *watch_->state()->read;
  bus_.set("b.service", managed_unit("/b"));
  for (int i = 0; i < 100; ++i) bus_.signal_new("b.service");
  next();
  EXPECT_GE(*watch_->state()->read - first, 500ms);
}

TEST_F(ManagedOomWatchTest, ARestartOfSystemdIsFollowed) {
  watch(kRarely);
  next();
  bus_.set("a.service", managed_unit("/other"));
  bus_.signal_reexec();
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /other"));
}

TEST_F(ManagedOomWatchTest, ABusThatComesBackIsReadAgain) {
  watch(kRarely);
  next();
  bus_.go_away();
  bus_.set("a.service", managed_unit("/other"));
  EXPECT_THAT(names(), ElementsAre("ManagedOOMMemoryPressure /a")) << "the last rules hold";
  bus_.accept_again();
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /other"));
}

TEST_F(ManagedOomWatchTest, WithoutSystemdForLongThereAreNoRules) {
  watch({1h, 1ms, 1ms, 50ms});
  next();
  bus_.go_away();
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_NE(watch_->state()->problem, "");
  bus_.accept_again();
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
}

TEST_F(ManagedOomWatchTest, OffThereAreNoRules) {
  watch(kRarely, std::nullopt);
  EXPECT_FALSE(watch_->state());
  watch_->follow(rulesets::OomdConf());
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
  watch_->follow(std::nullopt);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_FALSE(watch_->state());
}

TEST_F(ManagedOomWatchTest, NewSettingsMakeNewRules) {
  watch(kRarely);
  next();
  rulesets::OomdConf conf;
  conf.pressure_limit = 1000;
  watch_->follow(conf);
  next();
  EXPECT_EQ(watch_->state()->rules.pressure.at("/a").limit_permyriad, 1000);
}

TEST_F(ManagedOomWatchTest, AUnitWithoutAUsablePathIsReported) {
  bus_.set("b.service", managed_unit("/../etc"));
  watch(kRarely);
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
  bus_.remove("a.service");
  bus_.signal_change("a.service");
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_THAT(watch_->state()->problem, HasSubstr("b.service"));
}

TEST(ManagedRules, FollowTheConfiguredOnes) {
  rulesets::Ruleset own;
  own.name = "own";
  rulesets::Ruleset managed;
  managed.name = "ManagedOOMSwap";
  EXPECT_FALSE(daemon::with_managed_rules({}, {}));
  EXPECT_THAT(*daemon::with_managed_rules(std::vector{own}, {managed}), ElementsAre(own, managed));
  EXPECT_THAT(*daemon::with_managed_rules({}, {managed}), ElementsAre(managed));
}

}  // namespace
}  // namespace forestall::agent
