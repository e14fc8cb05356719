// SPDX-License-Identifier: Apache-2.0
// Lines: the value of a usage counter at which each memory threshold is met.
#include <gtest/gtest.h>

#include "policy/lines.h"
#include "policy/step.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

TEST(LinesTest, TheNodesLineIsKubeletsFormula) {
  Observation observation;
  observation.node = node(gib(8), gib(3), /*inactive_file=*/gib(1));
  const auto found = lines(config({hard(Signal::memory_available, mib(100))}), observation);
  ASSERT_EQ(found.size(), 1U);
  const Line expected{.signal = Signal::memory_available,
                      .cgroup = {},
                      .path = "/",
                      .headroom = gib(3) - mib(100),
                      .usage_line = gib(8) - mib(100) + gib(1),
                      .floor_line = gib(8) - mib(100),
                      .usage = gib(6),
                      .capacity = gib(8),
                      .tune = false,
                      .margin = mib(512),
                      .warning = mib(512)};
  EXPECT_EQ(found[0], expected);
}

TEST(LinesTest, OneLineForEachSubjectThatIsKnown) {
  Config config = policy::config({hard(Signal::memory_available, mib(100)),
                                  hard(Signal::allocatable_memory_available, mib(100)),
                                  hard(Signal::cgroup_memory_available, mib(10))});
  config.thresholds[2].tune = true;
  Observation observation;  // the node could not be read
  observation.pods = cgroup("/kubepods", gib(4), gib(1));
  observation.watched = {cgroup("/a", mib(64), mib(20), 2), cgroup("/b", mib(64), mib(5), 2)};
  observation.watched.push_back(cgroup("/unlimited", mib(64), mib(5), 2));
  observation.watched.back().limit.reset();
  const auto found = lines(config, observation);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].path, "/kubepods");
  EXPECT_FALSE(found[0].tune);
  EXPECT_EQ(found[1].path, "/a");
  EXPECT_EQ(found[1].headroom, mib(10));
  EXPECT_TRUE(found[1].tune);
  EXPECT_EQ(found[2].path, "/b");
  EXPECT_EQ(found[2].headroom, mib(-5)) << "negative: already met";
}

TEST(LinesTest, AShareIsOfTheSubjectsOwnCapacity) {
  Threshold threshold = hard(Signal::cgroup_memory_available, {0});
  threshold.limit = Limit::share(0.25F);
  Observation observation;
  observation.watched = {cgroup("/a", mib(64), mib(20)), cgroup("/b", mib(32), mib(20))};
  const auto found = lines(config({threshold}), observation);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].floor_line, mib(48));
  EXPECT_EQ(found[1].floor_line, mib(24));
}

TEST(LinesTest, SoftThresholdsHaveALineUntilTheyAreMet) {
  Config config = policy::config({soft(hard(Signal::memory_available, gib(1)))});
  config.thresholds[0].tune = true;
  Observation observation;
  observation.node = node(gib(8), gib(3));
  ASSERT_EQ(lines(config, observation).size(), 1U);
  EXPECT_EQ(lines(config, observation)[0].headroom, gib(2));
  EXPECT_FALSE(lines(config, observation)[0].tune) << "no workload is throttled for a grace period";
  observation.node = node(gib(8), gib(1));
  EXPECT_EQ(lines(config, observation).size(), 1U) << "at the limit nothing is met";
  observation.node = node(gib(8), gib(1) - Bytes{1});
  EXPECT_TRUE(lines(config, observation).empty());
}

TEST(LinesTest, WarningsAreForHardThresholdsAndComeNearer) {
  const Config config = policy::config(
      {hard(Signal::memory_available, mib(100)), soft(hard(Signal::memory_available, gib(1)))});
  Observation observation;
  observation.node = node(gib(8), mib(100 + 500));
  const auto found = lines(config, observation);
  ASSERT_EQ(found.size(), 1U) << "the soft one is met";
  EXPECT_EQ(found[0].headroom, mib(500));
  EXPECT_EQ(found[0].warning, mib(256));
  EXPECT_EQ(found[0].distance(), mib(244));
  observation.node = node(gib(8), gib(3));
  ASSERT_EQ(lines(config, observation).size(), 2U);
  EXPECT_EQ(lines(config, observation)[1].warning, std::nullopt) << "a soft one has time";
  EXPECT_EQ(lines(config, observation)[1].margin, Bytes{0});
}

TEST(LinesTest, OnlyMemoryHasLines) {
  Observation observation;
  observation.filesystems.layout = FilesystemLayout::single;
  observation.filesystems.nodefs = filesystem(gib(100), gib(50));
  observation.tasks = tasks(1000, 10);
  EXPECT_TRUE(
      lines(config({hard(Signal::nodefs_available, gib(1)), hard(Signal::nodefs_inodes_free, {1}),
                    hard(Signal::pid_available, {1})}),
            observation)
          .empty());
}

// No counter shows the shortage of memory.untilOom: the line is set by the nearest counter there
// is.
TEST(LinesTest, UntilOomIsPlacedByItsHeadroom) {
  Observation observation;
  observation.node = node(gib(2), mib(900), mib(30));
  observation.node.kernel_available = mib(300);
  observation.node.swap_total = gib(1);
  observation.node.swap_free = mib(100);
  const Config config = policy::config({hard(Signal::memory_until_oom, mib(64))});
  const auto found = lines(config, observation);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].cgroup, CgroupId{});
  EXPECT_EQ(found[0].headroom, mib(336));
  EXPECT_EQ(found[0].usage, *observation.node.usage);
  EXPECT_EQ(found[0].usage_line, *observation.node.usage + mib(336));
  EXPECT_EQ(found[0].floor_line, gib(3) - mib(64));
  EXPECT_EQ(found[0].capacity, gib(3));
  EXPECT_TRUE(found[0].with_swap);
  observation.node.swap_total.reset();
  observation.node.swap_free.reset();
  for (const Line& line : lines(config, observation)) EXPECT_TRUE(line.with_swap);
  observation.node.swap_total = observation.node.swap_free = Bytes{0};
  EXPECT_FALSE(lines(config, observation).at(0).with_swap);
  observation.node.usage.reset();
  EXPECT_TRUE(lines(config, observation).empty());
}

TEST(LinesTest, AThresholdThatEvictsNothingHasALineUntilItIsMet) {
  Threshold threshold = hard(Signal::cgroup_memory_available, mib(10));
  threshold.own_limits_of = WorkloadClass::other;
  threshold.response = Response::warn;
  Observation observation;
  observation.watched = {cgroup("/a", mib(64), mib(12)), cgroup("/b", mib(64), mib(9))};
  auto found = lines(config({threshold}), observation);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "/a");
  threshold.response = Response::evict;
  found = lines(config({threshold}), observation);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].margin, Bytes{0}) << "hundreds may stay near theirs";
  EXPECT_EQ(found[0].warning, std::nullopt);
  // Not read, because it is far: the line assumes no inactive pages.
  observation.watched[0].inactive_file.reset();
  found = lines(config({threshold}), observation);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].usage_line, mib(54));
}

// The line and the threshold agree: at the line the threshold is unmet, one byte above it is met.
TEST(LinesTest, OneByteAboveTheLineReachesTheThreshold) {
  const Config config = policy::config({hard(Signal::memory_available, mib(100))});
  Observation observation;
  observation.node = node(gib(8), gib(3), mib(200));
  const Bytes line = lines(config, observation)[0].usage_line;
  observation.node.usage = line;
  EXPECT_EQ(step(config, {}, observation).decision.reason, Reason::no_threshold_met);
  observation.node.usage = line + Bytes{1};
  EXPECT_EQ(step(config, {}, observation).decision.reason, Reason::workloads_unread);
}

}  // namespace
}  // namespace forestall::policy
