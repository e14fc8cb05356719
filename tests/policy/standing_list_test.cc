// SPDX-License-Identifier: Apache-2.0
// Where the line of the guard's standing list is, and which workloads it has.
#include "policy/standing_list.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

Config of_node(Bytes limit = mib(100)) {
  return config({hard(Signal::memory_until_oom, limit)});
}

// 16 GiB of which `available` is no working set; the kernel has as much left.
Observation calm(Bytes available) {
  Observation observation;
  observation.node = node(gib(16), available);
  observation.node.kernel_available = available;
  observation.node.swap_total = observation.node.swap_free = Bytes{0};
  return observation;
}

std::optional<StandingSubject> subject_of(const Config& of, const Observation& observation) {
  return standing_subject(of, observation, {});
}

TEST(StandingListTest, TheLineIsWhereHalfOfTheThresholdIsLeft) {
  const auto subject = subject_of(of_node(), calm(gib(8)));
  ASSERT_TRUE(subject);
  EXPECT_EQ(subject->cgroup, CgroupId{});
  EXPECT_EQ(subject->signal, Signal::memory_until_oom);
  EXPECT_EQ(subject->line, mib(50));
  EXPECT_EQ(subject->available, gib(8));
}

// In kubelet's signal page cache in use counts as used: the programs would kill for it.
TEST(StandingListTest, KubeletsSignalHasNoneOnTheNode) {
  const Config kubelet = config({hard(Signal::memory_available, mib(100))});
  EXPECT_FALSE(subject_of(kubelet, calm(gib(8))));
  const Config both =
      config({hard(Signal::memory_available, gib(1)), hard(Signal::memory_until_oom, mib(100))});
  const auto subject = subject_of(both, calm(gib(8)));
  ASSERT_TRUE(subject);
  EXPECT_EQ(subject->line, mib(50));
  EXPECT_EQ(subject->available, gib(8));
}

TEST(StandingListTest, WithSwapThereIsNoneOnTheNode) {
  Observation observation = calm(gib(8));
  observation.node.swap_total = observation.node.swap_free = gib(1);
  EXPECT_FALSE(subject_of(of_node(), observation));
  observation.node.swap_total.reset();
  EXPECT_FALSE(subject_of(of_node(), observation)) << "unknown is not none";
}

// On a kernel that counts memory of a balloon as available.
TEST(StandingListTest, AWatchedCgroupHasItWhereTheNodeIsNotCounted) {
  Observation observation = calm(gib(8));
  observation.watched = {cgroup("/a", gib(4), gib(2), /*threshold=*/1)};
  const Config both = config(
      {hard(Signal::memory_until_oom, mib(100)), hard(Signal::cgroup_memory_available, mib(64))});
  const CgroupId of_the_node;
  const auto subject = standing_subject(both, observation, {&of_the_node, 1});
  ASSERT_TRUE(subject);
  EXPECT_EQ(subject->path, "/a");
}

// The programs compare its limit, which is another.
TEST(StandingListTest, ACgroupOfDeclaredCapacityHasNone) {
  Observation observation = calm(gib(8));
  observation.watched = {cgroup("/a", gib(4), gib(2))};
  Threshold declared = hard(Signal::cgroup_memory_available, mib(64));
  EXPECT_TRUE(subject_of(config({declared}), observation));
  declared.capacity = gib(4);
  EXPECT_FALSE(subject_of(config({declared}), observation));
}

TEST(StandingListTest, NearAThresholdThereIsNone) {
  EXPECT_FALSE(subject_of(of_node(), calm(mib(110))));
}

TEST(StandingListTest, AfterAKillThereIsNoneUntilTheWindowOfTheKillLimitIsOver) {
  Observation observation = calm(gib(8));
  observation.at = second(100);
  observation.kills = {kill("/a", mib(0))};
  EXPECT_FALSE(subject_of(of_node(), observation)) << "it is dying";
  observation.kills.back().state = KillState::released;
  observation.kills.back().started = second(91);
  EXPECT_FALSE(subject_of(of_node(), observation));
  observation.kills.back().started = second(89);
  EXPECT_TRUE(subject_of(of_node(), observation));
}

TEST(StandingListTest, TheKernelsOrderHasNone) {
  Config kernel = of_node();
  kernel.ranking = Ranking::kernel;
  EXPECT_FALSE(subject_of(kernel, calm(gib(8))));
}

TEST(StandingListTest, OnlyHardThresholdsThatEvictHaveOne) {
  EXPECT_FALSE(subject_of(Config{}, calm(gib(8))));
  Config warns = of_node();
  warns.thresholds.front().response = Response::warn;
  EXPECT_FALSE(subject_of(warns, calm(gib(8))));
}

TEST(StandingListTest, TheNodePrecedesWatchedCgroups) {
  Observation observation = calm(gib(8));
  observation.watched = {cgroup("/a", gib(4), gib(2)), cgroup("/b", gib(4), gib(1))};
  const Threshold watched = hard(Signal::cgroup_memory_available, mib(64));
  const auto of_cgroups = subject_of(config({watched}), observation);
  ASSERT_TRUE(of_cgroups);
  EXPECT_EQ(of_cgroups->path, "/b");
  EXPECT_EQ(of_cgroups->line, mib(32));
  EXPECT_EQ(of_cgroups->available, gib(1));
  EXPECT_EQ(of_cgroups->capacity, gib(4));
  const auto both =
      subject_of(config({watched, hard(Signal::memory_until_oom, mib(100))}), observation);
  EXPECT_EQ(both->cgroup, CgroupId{});
}

TEST(StandingListTest, ListsWhatMayBeKilledInTheOrderOfEviction) {
  Observation observation = calm(gib(8));
  observation.workloads = {workload("/small", mib(10)),
                           with_protection(workload("/kept", mib(900)), Protection::declared),
                           workload("/unread", std::nullopt), workload("/large", mib(500))};
  const Config of = of_node();
  const StandingOrder order = standing_order(of, *subject_of(of, observation), observation);
  ASSERT_EQ(order.workloads.size(), 2U);
  EXPECT_EQ(order.considered[order.workloads[0].candidate].sample.workload.name, "large");
  EXPECT_EQ(order.considered[order.workloads[1].candidate].sample.workload.name, "small");
  EXPECT_TRUE(order.workloads[0].killable);
}

// An operator may start the next agent in a session.
TEST(StandingListTest, OfALoginSessionOnlyListedProcessesMayBeKilled) {
  Observation observation = calm(gib(8));
  observation.workloads = {workload("/user.slice/user-1000.slice/session-3.scope", mib(500)),
                           workload("/apps/session-4.scope", mib(400)),
                           workload("/apps/web", mib(300))};
  const Config of = of_node();
  const StandingOrder order = standing_order(of, *subject_of(of, observation), observation);
  ASSERT_EQ(order.workloads.size(), 3U);
  EXPECT_TRUE(order.workloads[0].listed_only);
  EXPECT_TRUE(order.workloads[1].listed_only);
  EXPECT_FALSE(order.workloads[2].listed_only);
}

// The programs compare priorities, and of requests only whether they are exceeded.
TEST(StandingListTest, PreferredOnesHaveTheLowestPriorityAndAvoidedOnesAreNotKilled) {
  Observation observation = calm(gib(8));
  observation.workloads = {with_preference(workload("/avoided", mib(900), -5), Preference::avoid),
                           workload("/ordinary", mib(500), 7),
                           with_preference(workload("/preferred", mib(10), 9), Preference::prefer)};
  const Config of = of_node();
  const StandingOrder order = standing_order(of, *subject_of(of, observation), observation);
  ASSERT_EQ(order.workloads.size(), 3U);
  EXPECT_EQ(order.considered[order.workloads[0].candidate].sample.workload.name, "preferred");
  EXPECT_EQ(order.workloads[0].priority, std::numeric_limits<std::int32_t>::min());
  EXPECT_TRUE(order.workloads[0].killable);
  EXPECT_EQ(order.workloads[1].priority, 7);
  EXPECT_TRUE(order.workloads[1].killable);
  EXPECT_EQ(order.considered[order.workloads[2].candidate].sample.workload.name, "avoided");
  EXPECT_EQ(order.workloads[2].priority, std::numeric_limits<std::int32_t>::max());
  EXPECT_FALSE(order.workloads[2].killable);
}

}  // namespace
}  // namespace forestall::policy
