// SPDX-License-Identifier: Apache-2.0
#include "model/unknown_threshold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall {
namespace {

using testing::HasSubstr;

Config config_of(std::initializer_list<Signal> signals) {
  Config config;
  for (const Signal signal : signals) config.thresholds.emplace_back().signal = signal;
  return config;
}

TEST(UnknownThresholds, ListEveryThresholdWithoutEvidence) {
  const Config config =
      config_of({Signal::memory_available, Signal::nodefs_available, Signal::nodefs_inodes_free,
                 Signal::imagefs_available, Signal::imagefs_inodes_free});
  Observation observation;
  std::vector<Evidence> evidence(1);
  evidence[0].threshold = config.thresholds[0];
  const auto unknown = unknown_thresholds(config, observation, evidence);
  ASSERT_EQ(unknown.size(), 4U);
  for (const UnknownThreshold& each : unknown) {
    EXPECT_EQ(each.subject, "node");
    EXPECT_THAT(each.reason, HasSubstr("/var/lib/kubelet does not exist or cannot be read"));
  }
}

TEST(UnknownThresholds, NameTheProblemThatWasNoted) {
  Config config = config_of({Signal::nodefs_available, Signal::imagefs_available});
  config.filesystems.nodefs = "/n";
  config.filesystems.imagefs = "/i";
  Observation observation;
  observation.notes.push_back({"/n", "not read: it is a network or FUSE filesystem"});
  const auto unknown = unknown_thresholds(config, observation, {});
  ASSERT_EQ(unknown.size(), 2U);
  EXPECT_EQ(unknown[0].reason, "/n: not read: it is a network or FUSE filesystem");
  EXPECT_THAT(unknown[1].reason, HasSubstr("/i does not exist"));
}

TEST(UnknownThresholds, NameWhatIsMissing) {
  Config config = config_of({Signal::swap_available, Signal::pid_available,
                             Signal::allocatable_memory_available, Signal::cgroup_memory_available,
                             Signal::cgroup_memory_available, Signal::nodefs_inodes_free,
                             Signal::memory_available});
  config.thresholds[3].cgroup = "/absent/*";
  config.thresholds[4].own_limits_of = WorkloadClass::burstable;
  Observation observation;
  observation.node.swap_total = Bytes{0};
  observation.filesystems.nodefs.emplace();
  std::vector<std::string> texts;
  for (const auto& each : unknown_thresholds(config, observation, {})) {
    texts.push_back(each.subject + ": " + each.reason);
  }
  EXPECT_THAT(texts,
              testing::ElementsAre("node: this node has no swap, so the threshold is never met",
                                   "node: the number of tasks could not be read",
                                   "pods: there is no pods cgroup below cgroupRoot",
                                   "/absent/*: no cgroup matches",
                                   "ownLimit burstable: no workload is near its own limit",
                                   "node: the filesystem has no fixed number of inodes",
                                   "node: the node's memory could not be read"));
}

TEST(UnknownThresholds, NameTheWatchedCgroupWithoutALimit) {
  Config config = config_of({Signal::memory_available, Signal::cgroup_memory_available});
  config.thresholds[1].cgroup = "/a*";
  Observation observation;
  observation.watched.emplace_back().path = "/app";
  observation.watched[0].threshold = 1;
  const auto unknown = unknown_thresholds(config, observation, {});
  EXPECT_THAT(unknown.back().reason, HasSubstr("/app has no limit"));
}

}  // namespace
}  // namespace forestall
