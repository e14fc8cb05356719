// SPDX-License-Identifier: Apache-2.0
// Warning lines: their places, and that usage hovering about one is not reported repeatedly.
#include "policy/warning.h"

#include <gtest/gtest.h>

#include <limits>

#include "policy/shortlist.h"
#include "policy/step.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

TEST(WarningTest, TheMarginIsASixteenthWithinBounds) {
  EXPECT_EQ(warning_margin(gib(4)), mib(256));
  EXPECT_EQ(warning_margin(gib(64)), gib(1));
  EXPECT_EQ(warning_margin(mib(256)), mib(32));
  EXPECT_EQ(warning_margin(mib(64)), mib(16)) << "never more than a quarter";
  EXPECT_EQ(warning_margin(Bytes{0}), Bytes{0});
  EXPECT_EQ(warning_margin(mib(-5)), Bytes{0});
}

TEST(WarningTest, EachLineIsHalfAsFarAsTheOneBefore) {
  const Bytes margin = mib(256);
  EXPECT_EQ(next_warning(gib(3), margin), mib(256));
  EXPECT_EQ(next_warning(mib(256), margin), mib(128));
  EXPECT_EQ(next_warning(mib(128), margin), mib(64));
  EXPECT_EQ(next_warning(mib(5), margin), mib(4));
  EXPECT_EQ(next_warning(mib(4), margin), std::nullopt) << "the threshold is next";
  EXPECT_EQ(next_warning(Bytes{0}, margin), std::nullopt);
  EXPECT_EQ(next_warning(mib(-100), margin), std::nullopt);
  EXPECT_EQ(next_warning(gib(3), Bytes{0}), std::nullopt) << "no margin, no warning";
}

TEST(WarningTest, OneThatIsNearlyReachedCountsAsReached) {
  const Bytes margin = mib(256);
  EXPECT_EQ(next_warning(mib(256 + 32), margin), mib(128));
  EXPECT_EQ(next_warning(mib(256 + 32) + Bytes{1}, margin), mib(256));
  EXPECT_TRUE(in_warning_zone(mib(256 + 32), margin));
  EXPECT_FALSE(in_warning_zone(mib(256 + 32) + Bytes{1}, margin));
  EXPECT_TRUE(in_warning_zone(mib(-1), margin));
  EXPECT_FALSE(in_warning_zone(mib(-1), Bytes{0}));
}

TEST(WarningTest, TheZoneIsLeftAQuarterBeyondIt) {
  EXPECT_FALSE(out_of_warning_zone(mib(256 + 64), mib(256)));
  EXPECT_TRUE(out_of_warning_zone(mib(256 + 64) + Bytes{1}, mib(256)));
}

// Wherever usage moves, the warning comes before the threshold and is not reached yet.
TEST(WarningTest, TheNextLineIsAlwaysBetweenUsageAndThreshold) {
  for (const Bytes capacity : {mib(16), mib(64), mib(256), gib(2), gib(4000)}) {
    const Bytes margin = warning_margin(capacity);
    for (std::int64_t headroom = 1; headroom < capacity.count; headroom = headroom * 5 / 4 + 1) {
      const auto warning = next_warning(Bytes{headroom}, margin);
      if (!warning) continue;
      EXPECT_LT(warning->count, headroom);
      EXPECT_GT(warning->count, 0);
      EXPECT_LE(*warning, margin);
    }
  }
}

TEST(ShortlistTest, IsTheHeadOfTheRankingWithoutTheExcluded) {
  Observation observation;
  observation.workloads = {
      workload("/a", mib(1)), with_protection(workload("/b", mib(9)), Protection::declared),
      workload("/c", mib(3)), with_processes(workload("/d", mib(8)), 0), workload("/e", mib(2))};
  observation.workloads->push_back(workload("/f", mib(7)));
  observation.kills = {kill("/f", mib(7))};
  const Config config = policy::config({hard(Signal::memory_available, mib(100))});
  const auto two = shortlist(config, observation, {}, 2).first;
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].sample.workload.path, "/c");
  EXPECT_EQ(two[1].sample.workload.path, "/e");
  EXPECT_EQ(shortlist(config, observation, {}, 9).first.size(), 3U);
  EXPECT_TRUE(shortlist(config, observation, {id_of("/x"), "/x"}, 9).first.empty());
}

// Kubelet's order: usage over request first, then lower priority, then more usage over request.
TEST(ShortlistTest, ReportsTheGrowthThatOthersNeedToPass) {
  const Config config = policy::config({hard(Signal::memory_available, mib(100))});
  Observation observation;
  observation.workloads = {workload("/a", mib(50)), workload("/b", mib(30)),
                           workload("/c", mib(10))};
  EXPECT_EQ(shortlist(config, observation, {}, 2).leads, (std::vector{mib(40), mib(20)}));
  const Bytes never{std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(shortlist(config, observation, {}, 3).leads, (std::vector{never, never, never}));
  observation.workloads->at(2).workload.priority = 1;
  EXPECT_EQ(shortlist(config, observation, {}, 2).leads, (std::vector{never, never}));
  // Of lower priority, but within its request for a certain amount.
  observation.workloads->at(2).workload.priority = -1;
  observation.workloads->at(2).workload.memory_request = mib(15);
  EXPECT_EQ(shortlist(config, observation, {}, 2).leads, (std::vector{mib(5), mib(5)}));
}

}  // namespace
}  // namespace forestall::policy
