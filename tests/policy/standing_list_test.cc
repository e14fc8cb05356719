// SPDX-License-Identifier: Apache-2.0
// Where the lines of the guard's standing list are, and which workloads it has.
#include "policy/standing_list.h"

#include <gtest/gtest.h>

#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

Config of_node(Bytes limit = mib(100)) {
  return config({hard(Signal::memory_available, limit)});
}

// 16 GiB of which `available` is no working set; the kernel has as much left.
Observation calm(Bytes available) {
  Observation observation;
  observation.node = node(gib(16), available);
  observation.node.kernel_available = available;
  observation.node.swap_total = observation.node.swap_free = Bytes{0};
  return observation;
}

TEST(StandingListTest, TheLinesAreWhereHalfOfTheThresholdIsLeft) {
  const auto subject = standing_subject(of_node(), calm(gib(8)));
  ASSERT_TRUE(subject);
  EXPECT_EQ(subject->cgroup, CgroupId{});
  EXPECT_EQ(*subject->headroom, gib(8) - mib(50));
  EXPECT_EQ(*subject->headroom_left, gib(8) - mib(50));
}

// Kernel memory and watermarks, which no working set counts, must not bring the line near.
TEST(StandingListTest, LessForTheKernelThanForTheThresholdIsNoShortage) {
  Observation observation = calm(gib(8));
  observation.node.kernel_available = gib(8) - mib(200);
  const auto subject = standing_subject(of_node(), observation);
  ASSERT_TRUE(subject);
  EXPECT_EQ(*subject->headroom_left, gib(8) - mib(250));
  EXPECT_EQ(*subject->headroom, gib(8) - mib(50));
}

TEST(StandingListTest, WithSwapOnlyTheWorkingSetHasALine) {
  Observation observation = calm(gib(8));
  observation.node.swap_total = observation.node.swap_free = gib(1);
  EXPECT_FALSE(standing_subject(of_node(), observation)->headroom_left);
  observation.node.swap_total.reset();
  EXPECT_FALSE(standing_subject(of_node(), observation)->headroom_left) << "unknown is not none";
  const Config until_oom = config({hard(Signal::memory_until_oom, mib(100))});
  EXPECT_FALSE(standing_subject(until_oom, observation));
  EXPECT_EQ(*standing_subject(until_oom, calm(gib(8)))->headroom_left, gib(8) - mib(50));
}

TEST(StandingListTest, NearAThresholdThereIsNone) {
  EXPECT_FALSE(standing_subject(of_node(), calm(mib(110))));
}

TEST(StandingListTest, AfterAKillThereIsNoneUntilTheWindowOfTheKillLimitIsOver) {
  Observation observation = calm(gib(8));
  observation.at = second(100);
  observation.kills = {kill("/a", mib(0))};
  EXPECT_FALSE(standing_subject(of_node(), observation)) << "it is dying";
  observation.kills.back().state = KillState::released;
  observation.kills.back().started = second(91);
  EXPECT_FALSE(standing_subject(of_node(), observation));
  observation.kills.back().started = second(89);
  EXPECT_TRUE(standing_subject(of_node(), observation));
}

TEST(StandingListTest, TheKernelsOrderHasNone) {
  Config kernel = of_node();
  kernel.ranking = Ranking::kernel;
  EXPECT_FALSE(standing_subject(kernel, calm(gib(8))));
}

TEST(StandingListTest, OnlyHardThresholdsThatEvictHaveOne) {
  EXPECT_FALSE(standing_subject(Config{}, calm(gib(8))));
  Config warns = of_node();
  warns.thresholds.front().response = Response::warn;
  EXPECT_FALSE(standing_subject(warns, calm(gib(8))));
}

TEST(StandingListTest, TheNodePrecedesWatchedCgroups) {
  Observation observation = calm(gib(8));
  observation.watched = {cgroup("/a", gib(4), gib(2)), cgroup("/b", gib(4), gib(1))};
  const Threshold watched = hard(Signal::cgroup_memory_available, mib(64));
  const auto of_cgroups = standing_subject(config({watched}), observation);
  ASSERT_TRUE(of_cgroups);
  EXPECT_EQ(of_cgroups->path, "/b");
  EXPECT_EQ(*of_cgroups->headroom, gib(1) - mib(32));
  EXPECT_EQ(of_cgroups->used, gib(3));
  EXPECT_FALSE(of_cgroups->headroom_left);
  const auto both =
      standing_subject(config({watched, hard(Signal::memory_available, mib(100))}), observation);
  EXPECT_EQ(both->cgroup, CgroupId{});
}

TEST(StandingListTest, ListsWhatMayBeKilledInTheOrderOfEviction) {
  Observation observation = calm(gib(8));
  observation.workloads = {workload("/small", mib(10)),
                           with_protection(workload("/kept", mib(900)), Protection::declared),
                           workload("/unread", std::nullopt), workload("/large", mib(500))};
  const Config of = of_node();
  const StandingOrder order = standing_order(of, *standing_subject(of, observation), observation);
  ASSERT_EQ(order.workloads.size(), 2U);
  EXPECT_EQ(order.considered[order.workloads[0].candidate].sample.workload.name, "large");
  EXPECT_EQ(order.considered[order.workloads[1].candidate].sample.workload.name, "small");
  EXPECT_TRUE(order.workloads[0].killable);
}

}  // namespace
}  // namespace forestall::policy
