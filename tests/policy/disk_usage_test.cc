// SPDX-License-Identifier: Apache-2.0
// Which parts of a pod are on which filesystem.
#include "policy/disk_usage.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

// Two containers and a volume of each kind; each sum of the amounts identifies its parts.
WorkloadSample everything() {
  Pod made = pod("p", {container("a"), container("b")});
  made.volumes = {empty_dir("dir"), volume("host", VolumeKind::host_path),
                  volume("map", VolumeKind::config_map), volume("git", VolumeKind::git_repo),
                  volume("claim", VolumeKind::other)};
  PodVolume in_memory = empty_dir("memory");
  in_memory.in_memory = true;
  in_memory.default_medium = false;
  PodVolume huge = empty_dir("huge");
  huge.default_medium = false;
  made.volumes.push_back(in_memory);
  made.volumes.push_back(huge);
  return with_statistics(sample_of(made),
                         {container_sample("a", on_disk(Bytes{1}, 10), on_disk(Bytes{100}, 1'000)),
                          container_sample("b", on_disk(Bytes{2}, 20), on_disk(Bytes{200}, 2'000))},
                         {{"dir", on_disk(Bytes{10'000}, 1)},
                          {"host", on_disk(Bytes{20'000}, 2)},
                          {"map", on_disk(Bytes{30'000}, 3)},
                          {"git", on_disk(Bytes{40'000}, 4)},
                          {"claim", on_disk(Bytes{1'000'000}, 5)},
                          {"memory", on_disk(Bytes{2'000'000}, 6)},
                          {"huge", on_disk(Bytes{3'000'000}, 7)},
                          {"dir", on_disk(Bytes{5'000'000}, 8)}});
}

TEST(DiskUsageTest, PartsByLayout) {
  using Layout = FilesystemLayout;
  const auto all = on_disk(Bytes{100'303}, 3'040);
  const auto logs_and_volumes = on_disk(Bytes{100'300}, 3'010);
  const auto rootfs = on_disk(Bytes{3}, 30);
  const auto nothing = on_disk(Bytes{0}, 0);
  const WorkloadSample sample = everything();
  EXPECT_EQ(measured(sample, Filesystem::nodefs, Layout::single), all);
  EXPECT_EQ(measured(sample, Filesystem::imagefs, Layout::single), all);
  EXPECT_EQ(measured(sample, Filesystem::containerfs, Layout::single), all);
  EXPECT_EQ(measured(sample, Filesystem::nodefs, Layout::imagefs), logs_and_volumes);
  EXPECT_EQ(measured(sample, Filesystem::imagefs, Layout::imagefs), rootfs);
  EXPECT_EQ(measured(sample, Filesystem::containerfs, Layout::imagefs), rootfs);
  EXPECT_EQ(measured(sample, Filesystem::nodefs, Layout::split), all);
  EXPECT_EQ(measured(sample, Filesystem::imagefs, Layout::split), nothing);
  EXPECT_EQ(measured(sample, Filesystem::containerfs, Layout::split), all);
}

TEST(DiskUsageTest, WithoutStatisticsItIsUnknown) {
  WorkloadSample sample = everything();
  sample.statistics.reset();
  EXPECT_EQ(measured(sample, Filesystem::nodefs, FilesystemLayout::single), DiskUsage{});
  EXPECT_EQ(measured(sample, Filesystem::imagefs, FilesystemLayout::split), DiskUsage{});
  EXPECT_EQ(ephemeral_storage(sample), DiskUsage{});
}

TEST(DiskUsageTest, APartWithoutAFigureIsNone) {
  const auto sample = with_statistics(
      sample_of(pod("p", {container("a")})),
      {container_sample("a", on_disk({}, 5), {}), container_sample("b", {}, on_disk(Bytes{7}))});
  EXPECT_EQ(measured(sample, Filesystem::nodefs, FilesystemLayout::single), on_disk(Bytes{7}, 5));
}

TEST(DiskUsageTest, WithoutAPodEveryMeasuredVolumeCounts) {
  WorkloadSample sample = everything();
  sample.workload.pod.reset();
  EXPECT_EQ(measured(sample, Filesystem::nodefs, FilesystemLayout::imagefs),
            on_disk(Bytes{11'100'300}, 3'036));
}

TEST(DiskUsageTest, EphemeralStorageIsThePodsReading) {
  WorkloadSample sample = everything();
  EXPECT_EQ(ephemeral_storage(sample), on_disk(Bytes{80'303}, 3'038)) << "no hostPath in the sum";
  sample.statistics->ephemeral_storage = on_disk(Bytes{9});
  EXPECT_EQ(ephemeral_storage(sample), on_disk(Bytes{9}, 3'038));
  sample.statistics->ephemeral_storage = on_disk(Bytes{0}, 0);
  EXPECT_EQ(ephemeral_storage(sample), on_disk(Bytes{0}, 0));
}

TEST(DiskUsageTest, SumsSaturate) {
  const Bytes most{std::numeric_limits<std::int64_t>::max()};
  const auto sample =
      with_statistics(sample_of(pod("p", {container("a")})),
                      {container_sample("a", on_disk(most, most.count), on_disk(most, 1))});
  EXPECT_EQ(measured(sample, Filesystem::nodefs, FilesystemLayout::single),
            on_disk(most, most.count));
}

}  // namespace
}  // namespace forestall::policy
