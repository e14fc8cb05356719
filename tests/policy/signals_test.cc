// SPDX-License-Identifier: Apache-2.0
// Capacity and available of each signal; unknown stays unknown.
#include "policy/signals.h"

#include <gtest/gtest.h>

#include <limits>

#include "policy/saturating.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

TEST(SignalsTest, NodeAvailableIsCapacityLessWorkingSet) {
  NodeSample sample;
  sample.capacity = gib(8);
  sample.usage = gib(5);
  sample.inactive_file = gib(2);
  const auto level = node_level(sample);
  ASSERT_TRUE(level.has_value());
  EXPECT_EQ(level->capacity, gib(8));
  EXPECT_EQ(level->used(), gib(3));
  EXPECT_EQ(level->available(), gib(5));
}

TEST(SignalsTest, ActivePageCacheCountsAsUsedAndMemAvailableIsNotAsked) {
  NodeSample sample = node(gib(8), gib(1));
  sample.kernel_available = gib(7);
  EXPECT_EQ(node_level(sample)->available(), gib(1));
}

TEST(SignalsTest, AvailableCanBeNegative) {
  EXPECT_EQ(node_level(node(gib(8), mib(-300)))->available(), mib(-300));
}

TEST(SignalsTest, AWorkingSetIsNeverNegative) {
  NodeSample sample;
  sample.capacity = gib(8);
  sample.usage = gib(1);
  sample.inactive_file = gib(2);  // read a moment later
  EXPECT_EQ(node_level(sample)->available(), gib(8));
}

TEST(SignalsTest, AnyMissingReadingMakesANodeUnknown) {
  NodeSample sample = node(gib(8), gib(1));
  sample.capacity.reset();
  EXPECT_FALSE(node_level(sample).has_value());
  sample = node(gib(8), gib(1));
  sample.usage.reset();
  EXPECT_FALSE(node_level(sample).has_value());
  sample = node(gib(8), gib(1));
  sample.inactive_file.reset();
  EXPECT_FALSE(node_level(sample).has_value());
}

TEST(SignalsTest, AnyMissingReadingMakesACgroupUnknown) {
  CgroupSample sample = cgroup("/a", mib(100), mib(10));
  EXPECT_EQ(cgroup_level(sample, std::nullopt)->available(), mib(10));
  sample.usage.reset();
  EXPECT_FALSE(cgroup_level(sample, std::nullopt).has_value());
  sample = cgroup("/a", mib(100), mib(10));
  sample.inactive_file.reset();
  EXPECT_FALSE(cgroup_level(sample, std::nullopt).has_value());
}

TEST(SignalsTest, AnUnlimitedCgroupHasNoLevelUnlessOneIsDeclared) {
  CgroupSample sample = cgroup("/a", mib(100), mib(10));
  sample.limit.reset();
  EXPECT_FALSE(cgroup_level(sample, std::nullopt).has_value());
  EXPECT_EQ(cgroup_level(sample, mib(95))->available(), mib(5));
}

TEST(SignalsTest, ADeclaredCapacityStandsInForTheLimit) {
  EXPECT_EQ(cgroup_level(cgroup("/a", mib(100), mib(10)), mib(95))->available(), mib(5));
}

TEST(SaturatingTest, SumsStopAtTheEnds) {
  constexpr Bytes kMax{std::numeric_limits<std::int64_t>::max()};
  constexpr Bytes kMin{std::numeric_limits<std::int64_t>::min()};
  EXPECT_EQ(add({2}, {3}), Bytes{5});
  EXPECT_EQ(add(kMax, {1}), kMax);
  EXPECT_EQ(add(kMin, {-1}), kMin);
  EXPECT_EQ(subtract({2}, {3}), Bytes{-1});
  EXPECT_EQ(subtract(kMin, {1}), kMin);
  EXPECT_EQ(subtract({0}, kMin), kMax);
}

}  // namespace
}  // namespace forestall::policy
