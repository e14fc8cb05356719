// SPDX-License-Identifier: Apache-2.0
// The rebalancer and NodeReports: which it reads, and when its first plan waits for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "cluster/rebalancer.h"
#include "cluster/snapshot_lister.h"
#include "rebalancer_fixture.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;

TEST_F(RebalancerTest, ReadsNodeReportsForNodePressure) {
  ClusterWithPods cluster("abc");
  RebalancerOptions options;
  options.policy = kPressure;
  options.interval = std::chrono::hours(1);
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().made == 1; }));
  EXPECT_FALSE(cluster.requests("GET", "/nodereports?limit=500").empty());
  EXPECT_EQ(rebalancer->counts().made, 1U) << "a cluster without the kind has no reports";
  EXPECT_TRUE(cluster.evicted().empty());
}

// So that it has them when it becomes the leader.
TEST_F(RebalancerTest, ReadsNodeReportsAlsoWhileAnotherProcessLeads) {
  ClusterWithPods cluster("abc");
  RebalancerOptions options = leading("me");
  options.policy = kPressure;
  const auto rebalancer = make(cluster, options);
  cluster.pass_lease("other");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
    cluster.pass_lease("other");
    return !cluster.requests("GET", "/nodereports").empty();
  }));
  EXPECT_EQ(rebalancer->counts().made, 0U);
}

// As if the lists were 30 s apart: only the clock of the rebalancer jumps.
TEST_F(RebalancerTest, ComparesAsManyReportsAsThePolicyHas) {
  constexpr int kReports = 8;
  ClusterWithPods cluster("abc");
  JumpingClock clock;
  const auto now = std::chrono::floor<seconds>(std::chrono::system_clock::now());
  const auto report = [&](int number) {
    cluster.report(now +
                   std::chrono::floor<seconds>(Rebalancer::kReportsInterval) * (number - kReports));
  };
  RebalancerOptions options;
  options.policy = kLongPressure;
  options.interval = Rebalancer::kReportsInterval;
  report(1);
  const auto rebalancer = make_with(clock, cluster, options);
  const auto lists = [&] { return cluster.requests("GET", "/nodereports").size(); };
  // The first plan waits for an interval, because there are too few reports.
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return lists() == 1; }));
  clock.jump(Rebalancer::kReportsInterval);
  // Each report is in two lists, because a list that is counted twice must not displace one.
  constexpr std::uint64_t kPlans = 2 * kReports - 1;
  for (std::uint64_t number = 1; number < kPlans; ++number) {
    ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
      return rebalancer->counts().made == number && lists() == 2 * number + 1;
    })) << number;
    EXPECT_TRUE(cluster.evicted().empty()) << number;
    if (number % 2 == 0) report(static_cast<int>(number) / 2 + 1);
    clock.jump(Rebalancer::kReportsInterval);
  }
  ASSERT_TRUE(
      run_until({rebalancer.get()}, [&] { return count(*rebalancer, PlannedEnd::evicted) == 1; }));
  EXPECT_EQ(rebalancer->counts().made, kPlans);
}

// It may have pods that the leader before moved, and no list of pods has them any more.
TEST_F(RebalancerTest, UsesNoReportOfBeforeItLed) {
  ClusterWithPods cluster("abc");
  const auto now = std::chrono::floor<seconds>(std::chrono::system_clock::now());
  cluster.report(now - seconds(1));
  RebalancerOptions options = leading("me");
  options.policy = kShortPressure;
  const auto rebalancer = make(cluster, options);
  cluster.pass_lease("other");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
    cluster.pass_lease("other");
    return !cluster.requests("GET", "/nodereports").empty();
  }));
  const std::size_t lists = cluster.requests("GET", "/nodereports").size();
  cluster.pass_lease("");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
    return rebalancer->counts().made >= 3 && cluster.requests("GET", "/nodereports").size() > lists;
  }));
  EXPECT_TRUE(cluster.evicted().empty());
  cluster.report(now);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 1; }));
}

// The next one would be an hour later.
TEST_F(RebalancerTest, TheFirstPlanOfALeaderWaitsForReports) {
  for (const bool reports : {true, false}) {
    SCOPED_TRACE(reports);
    ClusterWithPods cluster("abc");
    JumpingClock clock;
    const auto now = std::chrono::floor<seconds>(std::chrono::system_clock::now());
    cluster.report(now - seconds(30));
    RebalancerOptions options = leading("me", seconds(400), seconds(300));
    options.policy = kShortPressure;
    options.interval = std::chrono::hours(1);
    const auto rebalancer = make_with(clock, cluster, options);
    const auto has_lists = [&](std::size_t number) {
      return run_until({rebalancer.get()},
                       [&] { return cluster.requests("GET", "/nodereports").size() >= number; });
    };
    ASSERT_TRUE(has_lists(2)) << "at the start, and when it leads";
    if (reports) cluster.report(now);
    clock.jump(Rebalancer::kReportsInterval);
    ASSERT_TRUE(has_lists(3));
    if (!reports) {
      EXPECT_EQ(rebalancer->counts().made, 0U);
      clock.jump(Rebalancer::kReportsInterval);
    }
    ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().made == 1; }));
    ASSERT_TRUE(run_until({rebalancer.get()},
                          [&] { return cluster.evicted().size() == (reports ? 1U : 0U); }));
  }
}

// Only a kind that is absent or refused is not waited for.
TEST_F(RebalancerTest, TheFirstPlanWaitsForReportsThroughAnError) {
  for (const int code : {403, 404, 500}) {
    SCOPED_TRACE(code);
    ClusterWithPods cluster("abc");
    JumpingClock clock;
    cluster.report(std::chrono::floor<seconds>(std::chrono::system_clock::now()));
    cluster.set_code("/nodereports", code);
    RebalancerOptions options;
    options.policy_file = "policy.yaml";
    options.policy = kShortPressure;
    options.interval = std::chrono::hours(1);
    const auto rebalancer = make_with(clock, cluster, options);
    const auto made = [&] { return rebalancer->counts().made == 1; };
    const auto asked = [&](std::size_t times) {
      return cluster.requests("GET", "/nodereports").size() >= times;
    };
    if (code != 500) {
      EXPECT_TRUE(run_until({rebalancer.get()}, made));
      continue;
    }
    ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
      clock.jump(seconds(1));
      return asked(SnapshotLister::kOptionalAttemptsMax);
    }));
    EXPECT_FALSE(made());
    cluster.set_code("/nodereports", 200);
    clock.jump(Rebalancer::kReportsInterval);
    ASSERT_TRUE(run_until({rebalancer.get()}, made));
    ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 1; }));
  }
}

}  // namespace
}  // namespace forestall::cluster
