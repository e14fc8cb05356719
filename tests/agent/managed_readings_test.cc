// SPDX-License-Identifier: Apache-2.0
// What `forestall status --managed` shows: the readings of monitored cgroups only.
#include "daemon/managed_readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace forestall::daemon {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::Field;
using testing::Optional;

class ManagedReadingsTest : public ::testing::Test {
 protected:
  void monitor(std::vector<std::string> paths) {
    monitored_ = std::make_shared<const std::vector<std::string>>(std::move(paths));
  }
  // One evaluation with a reading of / and /a, which is the cgroup `id`.
  void evaluate(int second, std::uint64_t id, std::int64_t pgscan) {
    rulesets::RuleObservation read;
    read.time = seconds(second);
    read.host.mem_total = 100;
    read.cgroups.emplace_back().path = "/";
    rulesets::Cgroup& cgroup = read.cgroups.emplace_back();
    cgroup.path = "/a";
    cgroup.id = id;
    cgroup.current = 7;
    cgroup.stat.emplace().pgscan = pgscan;
    cgroup.memory_pressure.emplace().full = rulesets::PressureLine{1, 2, 3, 4};
    Observation observation;
    observation.rules = read;
    evaluate(observation);
  }
  void evaluate(const Observation& observation) {
    const Decision decision;
    readings_.evaluated({observation, decision, MonotonicTime{}});
  }

  std::shared_ptr<const std::vector<std::string>> monitored_;
  ManagedReadings readings_{[this] { return monitored_; }};
};

TEST_F(ManagedReadingsTest, AreThoseOfMonitoredCgroups) {
  evaluate(1, 1, 10);
  EXPECT_FALSE(readings_.last()) << "none is monitored";
  monitor({"/a", "/gone"});
  evaluate(2, 1, 10);
  const auto taken = readings_.last();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->at, MonotonicTime(seconds(2)));
  EXPECT_EQ(taken->host.mem_total, 100);
  ManagedCgroupReading expected;
  expected.cgroup = "/a";
  expected.id = 1;
  expected.usage = 7;
  expected.pgscan = 10;
  expected.pressure = rulesets::PressureLine{1, 2, 3, 4};
  EXPECT_THAT(taken->cgroups, ElementsAre(expected));
}

TEST_F(ManagedReadingsTest, AnEvaluationWithoutThemLeavesThemAsTheyAre) {
  monitor({"/a"});
  evaluate(1, 1, 10);
  evaluate(Observation());
  ASSERT_TRUE(readings_.last());
  EXPECT_EQ(readings_.last()->at, MonotonicTime(seconds(1)));
  monitored_.reset();
  evaluate(Observation());
  EXPECT_FALSE(readings_.last()) << "managedOOM is off";
}

// It is read once a minute while it is far from its limit.
TEST_F(ManagedReadingsTest, ADeferredCgroupIsUnknownWhileAnotherIsRead) {
  monitor({"/a"});
  evaluate(1, 1, 10);
  Observation observation;
  rulesets::RuleObservation read;
  read.time = seconds(2);
  read.deferred = {"ManagedOOMMemoryPressure /a"};
  observation.rules = read;
  evaluate(observation);
  EXPECT_EQ(readings_.last()->at, MonotonicTime(seconds(1))) << "nothing was read";
  EXPECT_THAT(readings_.last()->cgroups,
              ElementsAre(Field(&ManagedCgroupReading::pgscan, Optional(10))));
  read.cgroups.emplace_back().path = "/b";
  observation.rules = read;
  evaluate(observation);
  EXPECT_EQ(readings_.last()->at, MonotonicTime(seconds(2)));
  EXPECT_THAT(readings_.last()->cgroups, testing::IsEmpty()) << "not as old as it is";
}

TEST_F(ManagedReadingsTest, TheScansBeforeAreThoseOfTheSameCgroup) {
  monitor({"/a"});
  evaluate(1, 1, 10);
  evaluate(2, 1, 15);
  evaluate(2, 1, 15);  // the same reading decides again
  EXPECT_THAT(readings_.last()->cgroups,
              ElementsAre(Field(&ManagedCgroupReading::last_pgscan, Optional(10))));
  evaluate(3, 2, 1);
  EXPECT_THAT(readings_.last()->cgroups,
              ElementsAre(Field(&ManagedCgroupReading::last_pgscan, std::optional<std::int64_t>())))
      << "it was removed and created again";
}

}  // namespace
}  // namespace forestall::daemon
