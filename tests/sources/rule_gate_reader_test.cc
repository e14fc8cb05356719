// SPDX-License-Identifier: Apache-2.0
// When a ruleset is read for, by the pressure of its cgroups, on a node of files.
#include "sources/rule_gate_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "sources/rule_reader.h"
#include "support/small_node.h"

namespace forestall::sources {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

// The last line differs in no length: a plain file keeps the tail of a longer text.
std::string full_pressure(const char* avg10) {
  return std::string("some avg10=9.00 avg60=9.00 avg300=9.00 total=9\nfull avg10=") + avg10 +
         " avg60=0.00 avg300=0.00 total=9\n";
}

class RuleGateReaderTest : public ::testing::Test {
 protected:
  RuleGateReaderTest() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    EXPECT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    for (const char* each : {"/a", "/a/x"}) files_.set_group(each, 4096);
  }
  void set_pressure(const std::string& path, const char* avg10) const {
    files_.write("cgroup" + path + "/memory.pressure", full_pressure(avg10));
  }
  static rulesets::PressureGate gate_of(std::vector<std::string> paths) {
    rulesets::PressureGate gate;
    gate.cgroups = std::move(paths);
    return gate;
  }
  // The ruleset `name`: pressure of /a, kills below it.
  static rulesets::Ruleset ruleset(const std::string& name) {
    rulesets::PressureOver pressure;
    pressure.cgroups = {{{"a"}}};
    pressure.threshold = 60;
    rulesets::Kill kill;
    kill.by = rulesets::KillBy::pressure;
    kill.cgroups = {{{"a"}}};
    kill.recursive = true;
    kill.preference = rulesets::PreferenceSource::systemd;
    rulesets::Ruleset made;
    made.name = name;
    made.groups = {{"g", {{"pressure", pressure}}}};
    made.actions = {{"kill", kill}};
    return made;
  }
  static MonotonicTime at(int second) { return MonotonicTime(std::chrono::seconds(second)); }

  test::SmallNode files_{"/a", "/a/x"};
  kernel::CgroupTree tree_;
};

TEST_F(RuleGateReaderTest, FollowsAPressureThatChanges) {
  RuleGateReader reader(tree_, files_ / "proc");
  set_pressure("/a", "0.00");
  EXPECT_EQ(reader.highest(gate_of({"/a"})), 0);
  set_pressure("/a", "0.01");
  EXPECT_NEAR(reader.highest(gate_of({"/a"})).value_or(0), 0.01, 1e-6);
  EXPECT_NEAR(reader.highest(gate_of({"/gone", "/a"})).value_or(0), 0.01, 1e-6) << "any of them";
  set_pressure("/a", "0.00");
  EXPECT_EQ(reader.highest(gate_of({"/a"})), 0);
}

TEST_F(RuleGateReaderTest, TheRootHasThePressureOfTheNode) {
  RuleGateReader reader(tree_, files_ / "proc");
  EXPECT_EQ(reader.highest(gate_of({"/"})), 0);
  files_.write("proc/pressure/memory", full_pressure("0.05"));
  EXPECT_GT(reader.highest(gate_of({"/"})).value_or(0), 0);
}

TEST_F(RuleGateReaderTest, WhatIsGoneHasNoPressureAndWhatCannotBeReadIsUnknown) {
  RuleGateReader reader(tree_, files_ / "proc");
  EXPECT_EQ(reader.highest(gate_of({"/a", "/gone"})), 0) << "no pressure, no such cgroup";
  files_.write("cgroup/a/memory.pressure", "some avg10=9.00 avg60=9.00 avg300=9.00 total=9\n");
  EXPECT_EQ(reader.highest(gate_of({"/a"})), 0) << "its detector has no reading either";
  std::filesystem::remove(files_ / "cgroup/a/memory.pressure");
  std::filesystem::create_directory(files_ / "cgroup/a/memory.pressure");
  RuleGateReader fresh(tree_, files_ / "proc");
  files_.write("proc/pressure/memory", full_pressure("0.00"));
  EXPECT_EQ(fresh.highest(gate_of({"/a"})), std::nullopt);
}

// Plain files: one that is held keeps its text when another one takes its place.
TEST_F(RuleGateReaderTest, HoldsNoMoreFilesThanItMay) {
  set_pressure("/a", "1.00");
  set_pressure("/a/x", "2.00");
  RuleGateReader reader(tree_, files_ / "proc", 1);
  EXPECT_EQ(reader.highest(gate_of({"/a", "/a/x"})), 2);
  for (const char* path : {"/a", "/a/x"}) {
    std::filesystem::remove(files_ / ("cgroup" + std::string(path) + "/memory.pressure"));
    set_pressure(path, "3.00");
  }
  EXPECT_EQ(reader.highest(gate_of({"/a"})), 1) << "held";
  EXPECT_EQ(reader.highest(gate_of({"/a/x"})), 3) << "opened again";
}

TEST(RuleGateFiles, LeaveMostOfTheLimitOfOpenFilesToWorkloads) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(RuleGateReader::held_max(), 32U);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LE(RuleGateReader::held_max(), RuleGateReader::kHeldMax);
}

// cgroup.pressure of 0 removes the file; with 1 the averages of before are back.
TEST_F(RuleGateReaderTest, APressureThatIsOffOpensItsGate) {
  files_.write("proc/pressure/memory", full_pressure("0.00"));
  const SharedValue<rulesets::ReadingPlan> plan(rulesets::reading_plan({ruleset("r")}));
  set_pressure("/a", "0.00");
  RuleSampleReader reader(tree_, files_ / "proc");
  EXPECT_THAT(reader.read_planned(at(1), plan).deferred, ElementsAre("r"));
  std::filesystem::remove(files_ / "cgroup/a/memory.pressure");
  RuleSampleReader fresh(tree_, files_ / "proc");
  EXPECT_THAT(fresh.read_planned(at(2), plan).deferred, IsEmpty());
  RuleGateReader gates(tree_, files_ / "proc");
  EXPECT_EQ(gates.highest(gate_of({"/a", "/gone"})), std::nullopt);
  EXPECT_EQ(gates.highest(gate_of({"/gone"})), 0);
  std::filesystem::remove_all(files_ / "proc/pressure");
  EXPECT_EQ(gates.highest(gate_of({"/a"})), 0) << "a kernel without PSI";
}

TEST_F(RuleGateReaderTest, ADeferredRulesetHasAnOverviewOnly) {
  RuleSampleReader reader(tree_, files_ / "proc");
  const SharedValue<rulesets::ReadingPlan> plan(rulesets::reading_plan({ruleset("r")}));
  set_pressure("/a", "0.00");
  auto read = reader.read_planned(at(1), plan);
  EXPECT_THAT(read.deferred, ElementsAre("r"));
  ASSERT_NE(read.find("/a"), nullptr) << "the first one";
  EXPECT_TRUE(read.find("/a")->memory_pressure);
  EXPECT_EQ(read.find("/a/x"), nullptr);
  read = reader.read_planned(at(2), plan);
  EXPECT_THAT(read.deferred, ElementsAre("r"));
  EXPECT_EQ(read.time, 2s);
  EXPECT_THAT(read.cgroups, IsEmpty());
  EXPECT_THAT(reader.read_planned(at(60), plan).cgroups, IsEmpty());
  EXPECT_EQ(reader.idle_until(), at(61)) << "the overview is due before the gate";
  EXPECT_NE(reader.read_planned(at(61), plan).find("/a"), nullptr) << "once a minute";
  const SharedValue<rulesets::ReadingPlan> other(rulesets::reading_plan({ruleset("s")}));
  EXPECT_NE(reader.read_planned(at(62), other).find("/a"), nullptr) << "of new rulesets";
}

// Its pressure is 0, so it exceeds 60 % after six seconds at the earliest.
TEST_F(RuleGateReaderTest, AGateIsReadWhenItCanHaveOpened) {
  RuleSampleReader reader(tree_, files_ / "proc");
  const SharedValue<rulesets::ReadingPlan> plan(rulesets::reading_plan({ruleset("r")}));
  set_pressure("/a", "0.00");
  EXPECT_THAT(reader.read_planned(at(1), plan).deferred, ElementsAre("r"));
  EXPECT_EQ(reader.idle_until(), at(7));
  set_pressure("/a", "60.01");
  EXPECT_THAT(reader.read_planned(at(6), plan).deferred, ElementsAre("r"));
  EXPECT_EQ(reader.idle_until(), at(7)) << "the gate was not read again";
  EXPECT_THAT(reader.read_planned(at(7), plan).deferred, IsEmpty());
  EXPECT_EQ(reader.idle_until(), at(7)) << "nothing waits";
}

// A chain may wait for a hook, or for a second reading of its candidates.
TEST_F(RuleGateReaderTest, ARulesetIsReadForAMinuteAfterItsGateShut) {
  RuleSampleReader reader(tree_, files_ / "proc");
  const SharedValue<rulesets::ReadingPlan> plan(rulesets::reading_plan({ruleset("r")}));
  set_pressure("/a", "60.01");
  EXPECT_NE(reader.read_planned(at(1), plan).find("/a/x"), nullptr);
  set_pressure("/a", "0.00");
  const auto read = reader.read_planned(at(60), plan);
  EXPECT_NE(read.find("/a/x"), nullptr);
  EXPECT_THAT(read.deferred, IsEmpty());
  EXPECT_THAT(reader.read_planned(at(61), plan).deferred, ElementsAre("r"));
}

// Its chain may wait for a hook, and the policy keeps it.
TEST_F(RuleGateReaderTest, AnotherPlanKeepsWhatHoldsOfEqualRulesets) {
  RuleSampleReader reader(tree_, files_ / "proc");
  const SharedValue<rulesets::ReadingPlan> before(rulesets::reading_plan({ruleset("r")}));
  const SharedValue<rulesets::ReadingPlan> after(
      rulesets::reading_plan({ruleset("q"), ruleset("r")}));
  set_pressure("/a", "60.01");
  EXPECT_THAT(reader.read_planned(at(1), before).deferred, IsEmpty());
  set_pressure("/a", "0.00");
  const auto read = reader.read_planned(at(2), after);
  EXPECT_THAT(read.deferred, ElementsAre("q"));
  EXPECT_NE(read.find("/a/x"), nullptr) << "r is read for a minute";
  EXPECT_THAT(reader.read_planned(at(61), after).deferred, ElementsAre("q", "r"));
  rulesets::Ruleset other = ruleset("r");
  std::get<rulesets::PressureOver>(other.groups[0].plugins[0].arguments).threshold = 50;
  set_pressure("/a", "60.01");
  const SharedValue<rulesets::ReadingPlan> changed(rulesets::reading_plan({ruleset("q"), other}));
  EXPECT_THAT(reader.read_planned(at(62), changed).deferred, ElementsAre("q"))
      << "q need not be read yet, and the other r was not read before";
}

TEST_F(RuleGateReaderTest, AnotherPlanReadsTheOverviewOfNewRulesetsOnly) {
  RuleSampleReader reader(tree_, files_ / "proc");
  const SharedValue<rulesets::ReadingPlan> one(rulesets::reading_plan({ruleset("r")}));
  const SharedValue<rulesets::ReadingPlan> both(
      rulesets::reading_plan({ruleset("q"), ruleset("r")}));
  set_pressure("/a", "0.00");
  EXPECT_NE(reader.read_planned(at(1), one).find("/a"), nullptr);
  EXPECT_NE(reader.read_planned(at(2), both).find("/a"), nullptr);
  EXPECT_THAT(reader.read_planned(at(3), one).cgroups, IsEmpty());
}

TEST_F(RuleGateReaderTest, AShortNodeOpensTheGateOfItsMemory) {
  rulesets::Ruleset ruleset = RuleGateReaderTest::ruleset("r");
  rulesets::AvailableBelow available;
  available.threshold = {false, 614'400};  // what is available
  ruleset.groups = {{"g", {{"available", available}}}};
  RuleSampleReader reader(tree_, files_ / "proc");
  const SharedValue<rulesets::ReadingPlan> at_it(rulesets::reading_plan({ruleset}));
  EXPECT_THAT(reader.read_planned(at(1), at_it).deferred, ElementsAre("r"));
  EXPECT_LE(reader.idle_until(), at(1)) << "what is available may fall at any time";
  available.threshold.value += 1;
  ruleset.groups = {{"g", {{"available", available}}}};
  const SharedValue<rulesets::ReadingPlan> above(rulesets::reading_plan({ruleset}));
  EXPECT_THAT(reader.read_planned(at(2), above).deferred, IsEmpty());
}

TEST_F(RuleGateReaderTest, AGateThatNeedsSwapIsReadSeldomWithoutSwap) {
  rulesets::Ruleset ruleset = RuleGateReaderTest::ruleset("r");
  rulesets::AvailableBelow memory;
  memory.threshold = {true, 10};
  rulesets::AvailableBelow swap = memory;
  swap.swap = true;
  ruleset.groups = {{"g", {{"available", memory}, {"available", swap}}}};
  const SharedValue<rulesets::ReadingPlan> plan(rulesets::reading_plan({ruleset}));
  RuleSampleReader reader(tree_, files_ / "proc");
  EXPECT_THAT(reader.read_planned(at(1), plan).deferred, ElementsAre("r"))
      << "600 kB are available";
  EXPECT_EQ(reader.idle_until(), at(11));
  const auto set_swap = [&](const std::string& free) {
    files_.write("proc/meminfo",
                 "MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapTotal: 1000 kB\n"
                 "SwapFree: " +
                     free + " kB\n");
  };
  set_swap("1000");
  EXPECT_THAT(reader.read_planned(at(10), plan).deferred, ElementsAre("r")) << "not read";
  EXPECT_THAT(reader.read_planned(at(11), plan).deferred, IsEmpty());
}

}  // namespace
}  // namespace forestall::sources
