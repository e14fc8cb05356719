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

TEST(SignalsTest, ActivePageCacheCountsAsUsedAndMemAvailableIsIgnored) {
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

TEST(SignalsTest, FilesystemsReportBytesAndInodes) {
  Observation observation;
  observation.at = second(9);
  observation.filesystems.nodefs = filesystem(gib(100), gib(10), 5000, 70);
  const auto bytes = node_state(Signal::nodefs_available, observation);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->capacity, gib(100).count);
  EXPECT_EQ(bytes->available, gib(10).count);
  EXPECT_EQ(bytes->at, second(9)) << "the sample has no time of its own";
  EXPECT_FALSE(bytes->level.has_value());
  observation.filesystems.nodefs->at = second(4);
  const auto inodes = node_state(Signal::nodefs_inodes_free, observation);
  ASSERT_TRUE(inodes.has_value());
  EXPECT_EQ(inodes->capacity, 5000);
  EXPECT_EQ(inodes->available, 70);
  EXPECT_EQ(inodes->at, second(4));
  EXPECT_FALSE(node_state(Signal::imagefs_available, observation).has_value());
  EXPECT_FALSE(node_state(Signal::containerfs_inodes_free, observation).has_value());
}

TEST(SignalsTest, HalfAFilesystemIsUnknownByHalves) {
  Observation observation;
  observation.filesystems.imagefs = filesystem(gib(100), gib(10), 5000, 70);
  observation.filesystems.imagefs->capacity.reset();
  EXPECT_FALSE(node_state(Signal::imagefs_available, observation).has_value());
  EXPECT_TRUE(node_state(Signal::imagefs_inodes_free, observation).has_value());
  observation.filesystems.imagefs = filesystem(gib(100), gib(10), 5000, 70);
  observation.filesystems.imagefs->inodes_free.reset();
  EXPECT_TRUE(node_state(Signal::imagefs_available, observation).has_value());
  EXPECT_FALSE(node_state(Signal::imagefs_inodes_free, observation).has_value());
}

TEST(SignalsTest, PidsAvailableIsCapacityLessRunning) {
  Observation observation;
  EXPECT_FALSE(node_state(Signal::pid_available, observation).has_value());
  observation.tasks = tasks(32768, 3518);
  EXPECT_EQ(node_state(Signal::pid_available, observation)->available, 29250);
  EXPECT_EQ(node_state(Signal::pid_available, observation)->capacity, 32768);
  observation.tasks.running = 40000;
  EXPECT_EQ(node_state(Signal::pid_available, observation)->available, -7232);
  observation.tasks.capacity.reset();
  EXPECT_FALSE(node_state(Signal::pid_available, observation).has_value());
}

TEST(SignalsTest, MemoryReadingsCarryTheirLevelAndTime) {
  Observation observation;
  observation.at = second(3);
  observation.node = node(gib(8), gib(2), gib(1));
  observation.node.at = second(2);
  const auto state = node_state(Signal::memory_available, observation);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->available, gib(2).count);
  EXPECT_EQ(state->at, second(2));
  EXPECT_EQ(state->level->inactive_file, gib(1));
  const auto watched = cgroup_state(cgroup("/a", mib(64), mib(1)), mib(32), observation);
  EXPECT_EQ(watched->capacity, mib(32).count);
  EXPECT_EQ(watched->at, second(3));
}

TEST(SignalsTest, SwapIsUnknownWithoutSwap) {
  Observation observation;
  observation.at = second(3);
  EXPECT_FALSE(node_state(Signal::swap_available, observation).has_value());
  observation.node.swap_free = mib(40);
  EXPECT_FALSE(node_state(Signal::swap_available, observation).has_value());
  observation.node.swap_total = gib(1);
  const auto state = signal_state(Signal::swap_available, observation);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->capacity, gib(1).count);
  EXPECT_EQ(state->available, mib(40).count);
  EXPECT_EQ(state->at, second(3));
  EXPECT_FALSE(state->level.has_value());
  observation.node.swap_total = observation.node.swap_free = Bytes{0};
  EXPECT_FALSE(node_state(Signal::swap_available, observation).has_value());
}

TEST(SaturatingTest, TimesStopAtTheEnds) {
  EXPECT_EQ(elapsed(second(1), second(3)), std::chrono::seconds(2));
  EXPECT_EQ(elapsed(MonotonicTime::min(), second(1)), Duration::max());
  EXPECT_EQ(later(second(1), Duration::max()), MonotonicTime::max());
  EXPECT_EQ(whole_seconds(-3), std::chrono::seconds(-3));
  EXPECT_EQ(whole_seconds(std::numeric_limits<std::int64_t>::min()), Duration::min());
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
