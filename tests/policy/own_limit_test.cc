// SPDX-License-Identifier: Apache-2.0
// Forestall's own thresholds: workloads near a limit of their own, and the node's backstop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/guard_list.h"
#include "policy/lines.h"
#include "policy/step.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

Threshold own_limit(Response response, Bytes margin = mib(10)) {
  Threshold threshold = hard(Signal::cgroup_memory_available, margin);
  threshold.own_limits_of = WorkloadClass::burstable;
  threshold.response = response;
  if (response != Response::evict) threshold.min_reclaim = Limit::bytes({margin.count / 2});
  return threshold;
}

Observation near_limit(Bytes available, double at = 1) {
  Observation observation;
  observation.at = second(at);
  observation.watched = {cgroup("/pod", mib(100), available)};
  observation.workloads = {workload("/pod", mib(100) - available), workload("/other", mib(500))};
  return observation;
}

TEST(OwnLimitTest, EvictTakesThatVeryWorkload) {
  const Config config = policy::config({own_limit(Response::evict)});
  EXPECT_EQ(reported(step(config, {}, near_limit(mib(9))).decision), "kill /pod for /pod");
  Observation unread = near_limit(mib(9));
  unread.workloads.reset();
  const Decision asked = step(config, {}, unread).decision;
  EXPECT_EQ(asked.action, Action::inspect);
  EXPECT_EQ(inspection_subject(asked), "/pod");
}

TEST(OwnLimitTest, FarFromTheLimitThereIsNoEvidence) {
  for (const Response response : {Response::evict, Response::warn, Response::slow}) {
    const Decision decision =
        step(policy::config({own_limit(response)}), {}, near_limit(mib(10))).decision;
    EXPECT_EQ(reported(decision), "none: no-threshold-met");
    EXPECT_TRUE(decision.evidence.empty()) << "thousands would fill every record";
  }
}

TEST(OwnLimitTest, WarningsEvictNothingAndNeedNoWorkloads) {
  for (const Response response : {Response::warn, Response::slow}) {
    Observation observation = near_limit(mib(9));
    observation.workloads.reset();
    const Decision decision = step(policy::config({own_limit(response)}), {}, observation).decision;
    EXPECT_EQ(reported(decision), "none: own-limit-near");
    ASSERT_EQ(decision.evidence.size(), 1U);
    EXPECT_TRUE(decision.evidence[0].met);
    EXPECT_FALSE(decision.evidence[0].requires_eviction());
  }
}

TEST(OwnLimitTest, AWarningIsOverWhenHalfTheMarginMoreIsThere) {
  const Config config = policy::config({own_limit(Response::warn)});
  Step at = step(config, {}, near_limit(mib(9), 1));
  at = step(config, at.state, near_limit(mib(14), 2));
  ASSERT_EQ(at.decision.evidence.size(), 1U);
  EXPECT_EQ(at.decision.evidence[0].first_met, second(1)) << "it is the same crossing";
  at = step(config, at.state, near_limit(mib(15), 3));
  EXPECT_EQ(reported(at.decision), "none: no-threshold-met");
  at = step(config, at.state, near_limit(mib(14), 4));
  EXPECT_EQ(reported(at.decision), "none: no-threshold-met")
      << "from above the margin itself counts";
}

TEST(OwnLimitTest, AWarningDoesNotHoldUpAnEviction) {
  Config config =
      policy::config({own_limit(Response::warn), hard(Signal::memory_available, mib(100))});
  Observation observation = near_limit(mib(9));
  observation.node = node(gib(2), mib(90));
  EXPECT_EQ(reported(step(config, {}, observation).decision), "kill /other for node");
  observation.workloads.reset();
  EXPECT_EQ(inspection_subject(step(config, {}, observation).decision), "")
      << "all workloads are needed, not those of the one that is warned about";
}

// Inactive file pages are read near the limit only.
TEST(OwnLimitTest, UnreadUsageCannotReachIt) {
  const Config config = policy::config({own_limit(Response::evict)});
  Observation observation = near_limit(mib(9));
  observation.watched[0].inactive_file.reset();
  EXPECT_EQ(reported(step(config, {}, observation).decision), "none: no-data");
  observation.watched[0].usage = mib(90);
  EXPECT_EQ(reported(step(config, {}, observation).decision), "none: no-threshold-met");
  observation.watched[0].usage = mib(100);
  observation.watched[0].inactive_file = mib(30);
  EXPECT_EQ(reported(step(config, {}, observation).decision), "none: no-threshold-met")
      << "full of page cache";
}

Observation until_oom(std::optional<Bytes> available, std::optional<Bytes> swap_free) {
  Observation observation;
  observation.at = second(1);
  observation.node = node(gib(2), mib(500));
  observation.node.kernel_available = available;
  observation.node.swap_total = gib(1);
  observation.node.swap_free = swap_free;
  observation.workloads = {workload("/small", mib(10)), workload("/large", mib(500))};
  return observation;
}

TEST(UntilOomTest, IsMemAvailablePlusSwapFree) {
  const Config config = policy::config({hard(Signal::memory_until_oom, mib(64))});
  const Decision enough = step(config, {}, until_oom(mib(24), mib(40))).decision;
  ASSERT_EQ(enough.evidence.size(), 1U);
  EXPECT_EQ(enough.evidence[0].available, mib(64).count);
  EXPECT_EQ(enough.evidence[0].capacity, gib(3).count);
  EXPECT_EQ(enough.evidence[0].subject, "node");
  EXPECT_EQ(reported(enough), "none: no-threshold-met");
  const Decision short_of = step(config, {}, until_oom(mib(24), mib(40) - Bytes{1})).decision;
  EXPECT_EQ(reported(short_of), "kill /large for node");
  EXPECT_EQ(reported(short_of.conditions), "MemoryPressure*");
  for (const auto& unknown : {until_oom(std::nullopt, mib(1)), until_oom(mib(1), std::nullopt)}) {
    EXPECT_EQ(reported(step(config, {}, unknown).decision), "none: no-data");
  }
}

TEST(UntilOomTest, ShareIsOfRamAndSwap) {
  Threshold threshold = hard(Signal::memory_until_oom, {0});
  threshold.limit = Limit::share(0.25F);
  const Config config = policy::config({threshold});
  EXPECT_EQ(step(config, {}, until_oom(mib(100), mib(100))).decision.evidence[0].limit.bytes(),
            mib(768));
}

TEST(UntilOomTest, MemoryOnItsWayCounts) {
  const Config config = policy::config({hard(Signal::memory_until_oom, mib(64))});
  Observation observation = until_oom(mib(10), mib(10));
  observation.kills = {kill("/large", mib(50))};
  EXPECT_EQ(reported(step(config, {}, observation).decision), "none for node: release-pending");
  observation.kills = {kill("/large", mib(40))};
  EXPECT_EQ(reported(step(config, {}, observation).decision), "kill /small for node");
}

Observation swap(Bytes total, Bytes free) {
  Observation observation = until_oom(gib(1), free);
  observation.node.swap_total = total;
  return observation;
}

Config quarter_of_swap() {
  Threshold threshold = hard(Signal::swap_available, {0});
  threshold.limit = Limit::share(0.25F);
  return config({threshold});
}

TEST(SwapTest, ReportsMemoryPressureAndEvictsBelowTheShareOfSwapTotal) {
  const Decision enough = step(quarter_of_swap(), {}, swap(gib(1), mib(256))).decision;
  ASSERT_EQ(enough.evidence.size(), 1U);
  EXPECT_EQ(enough.evidence[0].limit.bytes(), mib(256));
  EXPECT_EQ(enough.evidence[0].capacity, gib(1).count);
  EXPECT_EQ(enough.evidence[0].subject, "node");
  EXPECT_EQ(reported(enough), "none: no-threshold-met");
  const Decision low = step(quarter_of_swap(), {}, swap(gib(1), mib(256) - Bytes{1})).decision;
  EXPECT_EQ(reported(low), "kill /large for node");
  EXPECT_EQ(reported(low.conditions), "MemoryPressure*");
  EXPECT_TRUE(low.evictions[0].at_once);
}

TEST(SwapTest, AQuantityNeedsNoCapacity) {
  const Config config = policy::config({hard(Signal::swap_available, mib(64))});
  EXPECT_EQ(reported(step(config, {}, swap(gib(1), mib(64))).decision), "none: no-threshold-met");
  EXPECT_EQ(reported(step(config, {}, swap(gib(1), mib(63))).decision), "kill /large for node");
}

TEST(SwapTest, IsNeverMetWithoutSwap) {
  EXPECT_EQ(reported(step(quarter_of_swap(), {}, swap({0}, {0})).decision), "none: no-data");
}

// How much swap the victim will give back is unknown: its memory is no credit here.
TEST(SwapTest, WaitsUntilTheLastVictimIsCleanedUp) {
  Observation observation = swap(gib(1), mib(10));
  observation.kills = {kill("/large", gib(1))};
  const Decision waiting = step(quarter_of_swap(), {}, observation).decision;
  EXPECT_EQ(reported(waiting), "none for node: cleanup-pending");
  EXPECT_EQ(waiting.evidence[0].pending_release, 0);
}

// No usage counter moves with free swap.
TEST(SwapTest, HasNoUsageLineAndNoGuardOrder) {
  EXPECT_TRUE(lines(quarter_of_swap(), swap(gib(1), mib(1))).empty());
  EXPECT_TRUE(guard_orders(quarter_of_swap(), swap(gib(1), mib(1))).empty());
}

}  // namespace
}  // namespace forestall::policy
