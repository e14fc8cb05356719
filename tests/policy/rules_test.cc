// SPDX-License-Identifier: Apache-2.0
// The small rules of a pass, each as a table: thresholds derived for containerfs, node-level
// reclaim by layout, grace periods, conditions, deadlines.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "policy/conditions.h"
#include "policy/containerfs.h"
#include "policy/deadlines.h"
#include "policy/grace.h"
#include "policy/node_reclaim.h"
#include "tests/policy/pods.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using std::chrono::seconds;

constexpr auto kSingle = FilesystemLayout::single;
constexpr auto kImagefs = FilesystemLayout::imagefs;
constexpr auto kSplit = FilesystemLayout::split;

TEST(ContainerfsTest, ThresholdsFollowTheFilesystemOfTheWritableLayers) {
  const std::vector<Threshold> configured{
      share(Signal::nodefs_available, 0.10F), share(Signal::imagefs_available, 0.15F),
      share(Signal::nodefs_inodes_free, 0.05F),
      soft(hard(Signal::imagefs_available, gib(40), gib(2)), seconds(90))};
  for (const auto layout : {kSingle, kSplit}) {
    const auto derived = containerfs_thresholds(configured, layout);
    ASSERT_EQ(derived.size(), 2U);
    EXPECT_EQ(derived[0],
              (DerivedThreshold{4, false, share(Signal::containerfs_available, 0.10F)}));
    EXPECT_EQ(derived[1],
              (DerivedThreshold{5, false, share(Signal::containerfs_inodes_free, 0.05F)}));
  }
  const auto derived = containerfs_thresholds(configured, kImagefs);
  ASSERT_EQ(derived.size(), 2U);
  EXPECT_EQ(derived[0], (DerivedThreshold{4, false, share(Signal::containerfs_available, 0.15F)}));
  EXPECT_EQ(
      derived[1],
      (DerivedThreshold{5, false,
                        soft(hard(Signal::containerfs_available, gib(40), gib(2)), seconds(90))}));
}

TEST(ContainerfsTest, ReplacesOrIgnoresTheOperatorsThresholds) {
  const std::vector<Threshold> configured{hard(Signal::containerfs_available, gib(50)),
                                          soft(hard(Signal::containerfs_inodes_free, {9})),
                                          hard(Signal::nodefs_available, gib(10))};
  const auto derived = containerfs_thresholds(configured, kSingle);
  ASSERT_EQ(derived.size(), 1U) << "the inodes have no original";
  EXPECT_EQ(derived[0], (DerivedThreshold{0, true, hard(Signal::containerfs_available, gib(10))}));
  EXPECT_TRUE(containerfs_thresholds(configured, kImagefs).empty());
  // Replaced ones count in the first pass already, because they were in kubelet's list.
  Observation observation;
  observation.filesystems.layout = kSingle;
  observation.filesystems.containerfs = filesystem(gib(100), gib(9));
  const Step first = step(config(configured), {}, observation);
  ASSERT_EQ(first.decision.evidence.size(), 1U);
  EXPECT_TRUE(first.decision.evidence[0].met);
  EXPECT_EQ(first.decision.evidence[0].limit.bytes(), gib(10));
}

TEST(ContainerfsTest, TheLayoutIsTheOneFoundFirst) {
  const Config config = policy::config({hard(Signal::nodefs_available, gib(10))});
  Observation observation;
  EXPECT_EQ(step(config, {}, observation).state.derived, nullptr);
  observation.filesystems.layout = kSplit;
  const State found = step(config, {}, observation).state;
  EXPECT_EQ(found.layout, kSplit);
  observation.filesystems.layout = kImagefs;
  const State later = step(config, found, observation).state;
  EXPECT_EQ(later.layout, kSplit);
  EXPECT_EQ(later.derived, found.derived) << "shared, not copied";
  observation.filesystems.layout.reset();
  EXPECT_EQ(step(config, found, observation).state.layout, kSplit);
}

TEST(ContainerfsTest, AnUnknownLayoutLeavesThemOutAndTheOthersIn) {
  const Config config = policy::config(
      {hard(Signal::nodefs_available, gib(10)), hard(Signal::containerfs_available, gib(10))});
  Observation observation;
  observation.filesystems.nodefs = filesystem(gib(100), gib(1));
  observation.filesystems.containerfs = filesystem(gib(100), gib(1));
  const Decision decision = step(config, {}, observation).decision;
  ASSERT_EQ(decision.evidence.size(), 1U);
  EXPECT_EQ(decision.evidence[0].threshold.signal, Signal::nodefs_available);
}

// pkg/kubelet/eviction/helpers.go UpdateContainerFsThresholds().
TEST(NodeReclaimTest, StepsByLayoutAndFilesystem) {
  struct Case {
    FilesystemLayout layout;
    std::string nodefs, imagefs, containerfs;
  };
  const std::vector<Case> cases{
      {kSingle, "ci", "ci", "ci"}, {kImagefs, "", "ci", "ci"}, {kSplit, "c", "i", "c"}};
  const auto steps = [](Signal signal, std::optional<FilesystemLayout> layout) {
    std::string text;
    for (const ReclaimStep one : reclaim_steps(signal, layout)) {
      text += one == ReclaimStep::dead_containers ? "c" : "i";
    }
    return text;
  };
  for (const Case& one : cases) {
    EXPECT_EQ(steps(Signal::nodefs_available, one.layout), one.nodefs);
    EXPECT_EQ(steps(Signal::nodefs_inodes_free, one.layout), one.nodefs);
    EXPECT_EQ(steps(Signal::imagefs_available, one.layout), one.imagefs);
    EXPECT_EQ(steps(Signal::imagefs_inodes_free, one.layout), one.imagefs);
    EXPECT_EQ(steps(Signal::containerfs_available, one.layout), one.containerfs);
    EXPECT_EQ(steps(Signal::containerfs_inodes_free, one.layout), one.containerfs);
    EXPECT_EQ(steps(Signal::memory_available, one.layout), "");
    EXPECT_EQ(steps(Signal::pid_available, one.layout), "");
  }
  EXPECT_EQ(steps(Signal::nodefs_available, std::nullopt), "");
}

// pkg/kubelet/eviction/helpers.go buildSignalToNodeReclaimFuncs().
TEST(GraceTest, ByVersionAndPod) {
  struct Case {
    std::string name;
    bool hard;
    std::int64_t most;
    std::optional<Duration> own;
    bool lesser, as_given;
    Duration grace;
  };
  const std::vector<Case> cases{
      {"hard", true, 60, seconds(30), true, true, seconds(1)},
      {"soft, the maximum is less", false, 5, seconds(30), true, true, seconds(5)},
      {"soft, the pod's is less", false, 60, seconds(30), true, true, seconds(30)},
      {"soft, the pod has none", false, 60, {}, true, true, seconds(60)},
      {"soft, nothing configured", false, 0, seconds(30), true, true, seconds(0)},
      {"soft, the pod's is zero", false, 60, seconds(0), true, true, seconds(0)},
      {"soft, old: always the maximum", false, 60, seconds(30), false, true, seconds(60)},
      {"negative as given", false, -1, seconds(30), true, true, seconds(-1)},
      {"negative as given, old", false, -1, seconds(30), false, true, seconds(-1)},
      {"negative defers to the pod", false, -1, seconds(45), true, false, seconds(45)},
      {"negative, and the pod has none", false, -1, {}, true, false, seconds(30)},
      {"beyond what a duration holds",
       false,
       std::numeric_limits<std::int64_t>::max(),
       {},
       true,
       true,
       Duration::max()},
  };
  for (const Case& one : cases) {
    Config config;
    config.max_pod_grace_seconds = one.most;
    config.compat.soft_grace_is_lesser = one.lesser;
    config.compat.negative_grace_as_given = one.as_given;
    Threshold threshold = hard(Signal::memory_available, gib(1));
    if (!one.hard) threshold = soft(threshold);
    Pod known = pod("a", {});
    known.termination_grace = one.own;
    EXPECT_EQ(eviction_grace(config, threshold, sample_of(known).workload), one.grace) << one.name;
  }
  Config old;
  old.compat.hard_grace = seconds(0);
  EXPECT_EQ(eviction_grace(old, hard(Signal::memory_available, gib(1)), {}), seconds(0));
  old.max_pod_grace_seconds = 7;
  EXPECT_EQ(eviction_grace(old, soft(hard(Signal::memory_available, gib(1))), {}), seconds(7))
      << "no pod is known";
}

TEST(GraceTest, OnlyHardMemoryAndProcessNumbersKillAtOnce) {
  Config config;
  for (const Signal signal : kSignals) {
    const Resource resource = resource_of(signal);
    const bool urgent = resource == Resource::memory || resource == Resource::pids;
    EXPECT_EQ(kills_at_once(config, hard(signal, {1})), urgent) << to_string(signal);
    EXPECT_FALSE(kills_at_once(config, soft(hard(signal, {1})))) << to_string(signal);
  }
  config.compat.hard_at_once = false;
  EXPECT_FALSE(kills_at_once(config, hard(Signal::memory_available, {1})));
}

TEST(ConditionsTest, EachLastsOnItsOwn) {
  Reports reports;
  const auto at = [&](double now, Pressure pressure) {
    return reported(report(pressure, seconds(300), second(now), reports));
  };
  EXPECT_EQ(at(0, {false, false, false}), "") << "never reported is not a change";
  EXPECT_EQ(at(10, {true, false, false}), "MemoryPressure*");
  EXPECT_EQ(at(20, {true, true, false}), "MemoryPressure DiskPressure*");
  EXPECT_EQ(at(319, {false, false, true}), "MemoryPressure DiskPressure PIDPressure*");
  EXPECT_EQ(at(320, {false, false, false}), "-MemoryPressure* -DiskPressure* PIDPressure");
  EXPECT_EQ(at(321, {false, false, false}), "PIDPressure");
  Reports none;
  EXPECT_FALSE(report({true, false, false}, seconds(0), second(1), none)[0].status)
      << "strictly less than a period of nothing";
}

TEST(ConditionsTest, ThreeInAFixedOrder) {
  Reports reports;
  const Conditions conditions = report({false, true, false}, seconds(1), second(7), reports);
  const Conditions expected{ConditionStatus{Condition::memory_pressure, false, false, std::nullopt},
                            ConditionStatus{Condition::disk_pressure, true, true, second(7)},
                            ConditionStatus{Condition::pid_pressure, false, false, std::nullopt}};
  EXPECT_EQ(conditions, expected);
}

TEST(ConditionsTest, AWatchedCgroupIsNoConditionOfTheNode) {
  Observation observation;
  observation.watched = {cgroup("/a", mib(64), mib(1))};
  const auto decision =
      step(config({hard(Signal::cgroup_memory_available, mib(10))}), {}, observation).decision;
  EXPECT_TRUE(decision.evidence[0].met);
  EXPECT_EQ(reported(decision.conditions), "");
}

TEST(DeadlinesTest, TheNextThingThatTimeChanges) {
  const Config config =
      policy::config({hard(Signal::memory_available, gib(1)),
                      soft(hard(Signal::memory_available, gib(2)), seconds(30)),
                      soft(hard(Signal::memory_available, gib(3)), seconds(600))});
  Observation observation;
  observation.at = second(100);
  observation.node = node(gib(8), gib(4));
  State state = step(config, {}, observation).state;
  EXPECT_EQ(next_deadline(config, state), std::nullopt);
  EXPECT_EQ(next_deadline(config, {}), std::nullopt);
  observation.node = node(gib(8), mib(1500));
  state = step(config, state, observation).state;
  EXPECT_EQ(next_deadline(config, state), second(130));
  observation.at = second(130);
  state = step(config, state, observation).state;
  EXPECT_EQ(next_deadline(config, state), second(700)) << "the other one; what drives is no wait";
  observation.at = second(140);
  observation.node = node(gib(8), gib(4));
  state = step(config, state, observation).state;
  EXPECT_EQ(next_deadline(config, state), second(430)) << "the condition, met last at 130";
}

}  // namespace
}  // namespace forestall::policy
