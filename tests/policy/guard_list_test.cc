// SPDX-License-Identifier: Apache-2.0
// Which processes the guard may kill, and where its line is.
#include "policy/guard_list.h"

#include <gtest/gtest.h>

#include "policy/warning.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

Config watch(Bytes limit) {
  return config({hard(Signal::cgroup_memory_available, limit)});
}

// A cgroup of 256 MiB with a threshold at 64 MiB and some available.
Observation near(Bytes available) {
  Observation observation;
  observation.watched = {cgroup("/a", mib(256), available)};
  return observation;
}

std::vector<std::string> names(const GuardOrder& order) {
  std::vector<std::string> names;
  for (const GuardVictim& victim : order.victims) {
    names.push_back(order.considered[victim.candidate].sample.workload.name);
  }
  return names;
}

TEST(GuardListTest, TheCriticalLineOfACgroupIsAtHalfOfTheThreshold) {
  const auto orders = guard_orders(watch(mib(64)), near(mib(70)));
  ASSERT_EQ(orders.size(), 1U);
  EXPECT_EQ(orders[0].path, "/a");
  EXPECT_EQ(orders[0].line, mib(256 - 32));
  EXPECT_EQ(orders[0].headroom, mib(70 - 32));
  EXPECT_EQ(orders[0].need, mib(32));
  EXPECT_TRUE(orders[0].victims.empty()) << "the workloads were not read";
  // It does not move when the threshold is crossed.
  EXPECT_EQ(guard_orders(watch(mib(64)), near(mib(40)))[0].line, mib(256 - 32));
  EXPECT_EQ(guard_orders(watch(mib(64)), near(mib(10)))[0].headroom, mib(10 - 32));
}

TEST(GuardListTest, ItsSubjectsAreFoundWithoutARanking) {
  Observation observation = near(mib(70));
  observation.node = node(gib(2), mib(150));
  const Config both = config(
      {hard(Signal::cgroup_memory_available, mib(64)), hard(Signal::memory_available, mib(100))});
  EXPECT_EQ(guard_subjects(both, observation), (std::vector<std::string>{"/", "/a"}));
  EXPECT_TRUE(guard_subjects(Config{}, observation).empty());
}

TEST(GuardListTest, FarFromEveryThresholdThereIsNoOrder) {
  const Bytes margin = warning_margin(mib(256));
  EXPECT_TRUE(guard_orders(watch(mib(64)), near(mib(65) + margin + margin)).empty());
  EXPECT_EQ(guard_orders(watch(mib(64)), near(mib(64) + margin)).size(), 1U);
  EXPECT_TRUE(guard_orders(Config{}, near(mib(1))).empty());
}

TEST(GuardListTest, TheKernelsReserveExhaustsTheNode) {
  Observation observation;
  observation.node = node(gib(2), mib(150));
  const Config of_node = config({hard(Signal::memory_available, mib(100))});
  // 50 MiB until the threshold, 150 until nothing is available: half way is 100.
  EXPECT_EQ(guard_orders(of_node, observation)[0].headroom, mib(100));
  // The kernel finds only 80.
  observation.node.kernel_available = mib(80);
  EXPECT_EQ(guard_orders(of_node, observation)[0].headroom, mib(65));
  observation.node.swap_free = mib(100);
  EXPECT_EQ(guard_orders(of_node, observation)[0].headroom, mib(115));
  // It would be exhausted before the threshold is met.
  observation.node.swap_free.reset();
  observation.node.kernel_available = mib(30);
  EXPECT_EQ(guard_orders(of_node, observation)[0].headroom, mib(15));
}

TEST(GuardListTest, SoftThresholdsAndOtherSignalsAreNotGuarded) {
  Observation observation = near(mib(10));
  observation.node = node(gib(8), mib(1));
  EXPECT_TRUE(
      guard_orders(config({soft(hard(Signal::cgroup_memory_available, mib(64)))}), near(mib(10)))
          .empty());
  EXPECT_TRUE(
      guard_orders(config({hard(Signal::pid_available, Bytes{1000})}), observation).empty());
  Config milder = watch(mib(64));
  for (const Response response : {Response::warn, Response::slow}) {
    milder.thresholds[0].response = response;
    EXPECT_TRUE(guard_orders(milder, near(mib(10))).empty());
  }
}

TEST(GuardListTest, OfSeveralThresholdsOnASubjectTheFirstToBeCriticalCounts) {
  Config both = watch(mib(64));
  both.thresholds.push_back(hard(Signal::cgroup_memory_available, mib(100)));
  Observation observation = near(mib(70));
  observation.watched.push_back(cgroup("/a", mib(256), mib(70), 1));
  const auto orders = guard_orders(both, observation);
  ASSERT_EQ(orders.size(), 1U);
  EXPECT_EQ(orders[0].line, mib(256 - 50));
}

TEST(GuardListTest, ListsTheRankingWithoutUnkillableWorkloads) {
  Observation observation = near(mib(70));
  observation.workloads = {
      workload("/a/third", mib(40), 10),
      with_protection(workload("/a/system", mib(90), 0), Protection::declared),
      workload("/a/first", mib(40), 0),
      workload("/a/second", mib(50), 5),
      with_processes(workload("/a/empty", mib(60), 0), 0),
      workload("/a/unknown", std::nullopt, 0),
      workload("/a/dying", mib(50), 0),
      workload("/elsewhere", mib(99), 0),
  };
  observation.kills = {kill("/a/dying", mib(1), KillState::stuck)};
  const auto orders = guard_orders(watch(mib(64)), observation);
  ASSERT_EQ(orders.size(), 1U);
  EXPECT_EQ(names(orders[0]), (std::vector<std::string>{"first", "second", "third"}));
  EXPECT_EQ(orders[0].victims[0].expected, mib(40));
  EXPECT_EQ(orders[0].victims[1].group, 1U);
}

TEST(GuardListTest, CombinesATooSmallVictimWithTheNext) {
  Observation observation = near(mib(70));
  observation.workloads = {workload("/a/tiny", mib(1), 0), workload("/a/small", mib(20), 1),
                           workload("/a/large", mib(60), 2), workload("/a/last", mib(60), 3)};
  const auto victims = guard_orders(watch(mib(64)), observation)[0].victims;
  ASSERT_EQ(victims.size(), 4U);
  EXPECT_EQ(victims[0].group, 0U);
  EXPECT_EQ(victims[1].group, 0U);
  EXPECT_EQ(victims[2].group, 0U);
  EXPECT_EQ(victims[3].group, 1U);
}

// 38 MiB are left until the line, and 32 are needed there.
TEST(GuardListTest, CountsAGrowingWorkloadWithItsLaterSize) {
  Observation observation = near(mib(70));
  observation.workloads = {workload("/a/grows", mib(20), 0), workload("/a/large", mib(60), 0)};
  (*observation.workloads)[0].growth = mib(10);
  (*observation.workloads)[1].growth = Bytes{0};
  Config growing = watch(mib(64));
  growing.ranking = Ranking::kubelet_growth;
  auto order = guard_orders(growing, observation)[0];
  EXPECT_EQ(names(order), (std::vector<std::string>{"grows", "large"}));
  EXPECT_EQ(order.victims[0].expected, mib(20));
  EXPECT_EQ(order.victims[1].group, 1U) << "a bystander would go with it";
  // Two workloads that grow alike each cause half of the crossing, so one victim is not enough.
  (*observation.workloads)[0].usage = mib(5);
  (*observation.workloads)[1].growth = mib(10);
  (*observation.workloads)[1].usage = mib(12);
  order = guard_orders(growing, observation)[0];
  ASSERT_EQ(order.victims.size(), 2U);
  EXPECT_EQ(order.victims[1].group, 0U);
  // Kubelet's order ignores growth: it selects the larger one, which is enough.
  (*observation.workloads)[1].usage = mib(60);
  order = guard_orders(watch(mib(64)), observation)[0];
  EXPECT_EQ(names(order)[0], "large");
  EXPECT_EQ(order.victims[1].group, 1U);
}

TEST(GuardListTest, NoOrderWhileEnoughIsOnItsWay) {
  Observation observation = near(mib(10));
  observation.kills = {kill("/a/victim", mib(50))};
  EXPECT_TRUE(guard_orders(watch(mib(64)), observation).empty());
  observation.kills = {kill("/a/victim", mib(10))};
  EXPECT_EQ(guard_orders(watch(mib(64)), observation).size(), 1U) << "still past the line";
  observation.kills = {kill("/a/victim", mib(50), KillState::stuck)};
  EXPECT_EQ(guard_orders(watch(mib(64)), observation).size(), 1U) << "it gives nothing back";
}

TEST(GuardListTest, OfTooManySubjectsTheNodeAndTheNearestAreGuarded) {
  Observation observation;
  observation.node = node(gib(2), mib(150));
  for (int i = 0; i < 100; ++i) {
    // Later means nearer.
    observation.watched.push_back(cgroup("/" + std::to_string(i), mib(256), mib(70) - kib(i)));
  }
  const Config both = config(
      {hard(Signal::cgroup_memory_available, mib(64)), hard(Signal::memory_available, mib(100))});
  auto orders = guard_orders(both, observation);
  ASSERT_EQ(orders.size(), kGuardSubjectsMax);
  EXPECT_EQ(orders[0].cgroup, CgroupId{}) << "the farthest of all, but the node";
  EXPECT_EQ(orders[1].path, "/99");
  EXPECT_EQ(orders.back().path, "/70");
  orders = guard_orders(watch(mib(64)), observation);
  ASSERT_EQ(orders.size(), kGuardSubjectsMax - 1) << "the node's place is its own";
  EXPECT_EQ(orders[0].path, "/99");
}

TEST(GuardListTest, NoMoreThanAFewAreListed) {
  Observation observation = near(mib(70));
  observation.workloads.emplace();
  for (int i = 0; i < 20; ++i) {
    observation.workloads->push_back(workload("/a/w" + std::to_string(i), mib(10), i));
  }
  EXPECT_EQ(guard_orders(watch(mib(64)), observation)[0].victims.size(), kGuardVictimsMax);
}

WorkloadSample calm(const std::string& path) {
  return workload(path, mib(40), 0, mib(60));
}

KillProgress killed(const std::string& path, Bytes freed) {
  KillProgress done = kill(path, Bytes{0}, KillState::released);
  done.started = second(1);
  done.expected = mib(40);
  done.freed = freed;
  return done;
}

TEST(GuardListTest, OfAWatchedCgroupNoWorkloadWithinItsRequestIsListed) {
  Observation observation = near(mib(70));
  observation.workloads = {workload("/a/over", mib(40), 0, mib(1)), calm("/a/calm")};
  EXPECT_EQ(names(guard_orders(watch(mib(64)), observation)[0]),
            (std::vector<std::string>{"over"}));
  observation.workloads = {calm("/a/calm")};
  EXPECT_TRUE(guard_orders(watch(mib(64)), observation)[0].victims.empty());
}

TEST(GuardListTest, OfTheNodeOnlyTheFirstVictimMayBeWithinItsRequest) {
  Observation observation;
  observation.at = second(2);
  observation.node = node(gib(2), mib(150));
  observation.workloads = {calm("/a/calm"), calm("/a/second")};
  const Config of_node = config({hard(Signal::memory_available, mib(100))});
  EXPECT_EQ(guard_orders(of_node, observation)[0].victims.size(), 1U);
  observation.kills = {killed("/b", mib(40))};
  EXPECT_TRUE(guard_orders(of_node, observation)[0].victims.empty());
}

TEST(GuardListTest, NoListWhileKillsFreeLittle) {
  Observation observation = near(mib(70));
  observation.at = second(2);
  observation.workloads = {workload("/a/over", mib(40), 0, mib(1))};
  observation.kills = {killed("/a/first", mib(40))};
  EXPECT_EQ(guard_orders(watch(mib(64)), observation)[0].victims.size(), 1U);
  observation.kills = {killed("/a/first", mib(1))};
  EXPECT_TRUE(guard_orders(watch(mib(64)), observation)[0].victims.empty());
}

TEST(GuardListTest, TheKillLimitBoundsTheListTogetherWithPastKills) {
  Observation observation = near(mib(70));
  observation.at = second(2);
  observation.workloads = {workload("/a/1", mib(40), 0), workload("/a/2", mib(40), 1),
                           workload("/a/3", mib(40), 2)};
  observation.kills = {killed("/b", mib(40))};
  Config limited = watch(mib(64));
  limited.kill_limit.node = 3;
  EXPECT_EQ(guard_orders(limited, observation)[0].victims.size(), 2U);
  limited.kill_limit.node = 1;
  EXPECT_TRUE(guard_orders(limited, observation)[0].victims.empty());
}

}  // namespace
}  // namespace forestall::policy
