// SPDX-License-Identifier: Apache-2.0
// Where kubelet keeps a pod's files, in a tree with its layout.
// tests/integration/disk_walker_test.cc tests the amounts.
#include "sources/pod_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kMeasuredPod = "0a6f9c2e-1b7d-4c58-9f20-3d1e5a7b9c00";

class PodStatisticsTest : public ::testing::Test {
 protected:
  PodStatisticsTest() {
    places_.nodefs = tree_ / "kubelet";
    places_.pod_logs = tree_ / "logs";
  }
  void write(const std::string& path) { tree_.write(path, "something"); }
  static std::string pod(const std::string& path) {
    return std::string("kubelet/pods/") + kMeasuredPod + "/" + path;
  }
  PodStatistics measure(const std::string& uid = kMeasuredPod) {
    const auto logs = list_pod_logs(places_.pod_logs);
    EXPECT_TRUE(logs);
    auto statistics = measure_pod(places_, uid, *logs, cancelled_, notes_);
    EXPECT_TRUE(statistics) << statistics.error().text();
    return *statistics;
  }
  test::TempTree tree_;
  FilesystemPlaces places_;
  std::atomic<bool> cancelled_{false};
  std::vector<SourceNote> notes_;
};

std::int64_t inodes(const std::optional<DiskUsage>& usage) {
  return usage && usage->inodes ? *usage->inodes : -1;
}

TEST_F(PodStatisticsTest, EveryPlaceKubeletKeepsThingsIn) {
  write(pod("etc-hosts"));
  write(pod("volumes/kubernetes.io~empty-dir/cache/a/b"));
  write(pod("volumes/kubernetes.io~empty-dir/work/a"));
  write(pod("volumes/kubernetes.io~configmap/settings/a"));
  write(pod("volumes/kubernetes.io~git-repo/source/a"));
  write(pod("volumes/kubernetes.io~projected/token/a"));
  write(pod("volumes/kubernetes.io~secret/key/a"));
  write(pod("volumes/kubernetes.io~downward-api/names/a"));
  write(pod("volumes/kubernetes.io~csi/remote/mount/a"));  // not on this node
  write(pod("plugins/kubernetes.io~empty-dir/wrapped_key/ready"));
  write(pod("containers/app/ab12"));
  write(std::string("logs/shop_front_") + kMeasuredPod + "/app/0.log");
  write(std::string("logs/shop_front_") + kMeasuredPod + "/app/1.log");
  write(std::string("logs/shop_front_") + kMeasuredPod + "/sidecar/0.log");
  write(std::string("logs/shop_front_") + kMeasuredPod + "/own.log");
  write("logs/shop_other_uid2/app/0.log");
  const auto found = measure();
  EXPECT_THAT(notes_, IsEmpty());
  std::map<std::string, std::int64_t> volumes;
  for (const auto& volume : found.volumes) volumes[volume.name] = inodes(volume.usage);
  EXPECT_THAT(volumes,
              ElementsAre(Pair("cache", 3), Pair("key", 2), Pair("names", 2), Pair("settings", 2),
                          Pair("source", 2), Pair("token", 2), Pair("work", 2)));
  ASSERT_EQ(found.containers.size(), 2u);
  EXPECT_EQ(found.containers[0].name, "app");
  EXPECT_EQ(inodes(found.containers[0].logs), 3);
  EXPECT_EQ(found.containers[1].name, "sidecar");
  EXPECT_FALSE(found.containers[0].rootfs) << "only the runtime has it";
  EXPECT_FALSE(found.containers[0].working_set);
  // etc-hosts; cache, work, settings, source; app, sidecar, own.log. Projected volumes do not
  // count.
  EXPECT_EQ(inodes(found.ephemeral_storage), 1 + 3 + 2 + 2 + 2 + 3 + 2 + 1);
}

TEST_F(PodStatisticsTest, APodWithoutFilesOccupiesNothing) {
  const auto found = measure();
  EXPECT_THAT(found.volumes, IsEmpty());
  EXPECT_THAT(found.containers, IsEmpty());
  EXPECT_EQ(found.ephemeral_storage, (DiskUsage{Bytes{0}, 0}));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(PodStatisticsTest, AUidCannotEscapeThePodsDirectory) {
  write("kubelet/secret");
  for (const char* uid : {"", ".", "..", "../..", "a/b"}) {
    EXPECT_FALSE(measure_pod(places_, uid, {}, cancelled_, notes_)) << uid;
  }
}

TEST_F(PodStatisticsTest, PlacesThatAreLinksAreNotThePods) {
  write("elsewhere/volumes/kubernetes.io~empty-dir/large/a");
  std::filesystem::create_directories(tree_ / "kubelet/pods");
  std::filesystem::create_directory_symlink(tree_ / "elsewhere",
                                            tree_ / (std::string("kubelet/pods/") + kMeasuredPod));
  EXPECT_THAT(measure().volumes, IsEmpty());
}

TEST_F(PodStatisticsTest, ReportsACancelledWalk) {
  write(pod("volumes/kubernetes.io~empty-dir/cache/a/b"));
  cancelled_ = true;
  const auto found = measure_pod(places_, kMeasuredPod, {}, cancelled_, notes_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ECANCELED);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(PodStatisticsTest, LogsAreFoundByTheLastPartOfTheirName) {
  write("logs/a_b_uid1/c/0.log");
  write("logs/a_b_uid2/c/0.log");
  write("logs/nothing/c/0.log");
  write("logs/a_file_uid3");
  const auto logs = list_pod_logs(places_.pod_logs);
  ASSERT_TRUE(logs);
  EXPECT_THAT(*logs, ElementsAre(Pair("uid1", "a_b_uid1"), Pair("uid2", "a_b_uid2")));
  const auto none = list_pod_logs(tree_ / "absent");
  ASSERT_TRUE(none);
  EXPECT_THAT(*none, IsEmpty());
  EXPECT_FALSE(list_pod_logs(tree_ / "logs/a_file_uid3"));
}

TEST(WritableLayers, AddUpTheLayersOfAContainer) {
  PodStatistics statistics;
  statistics.ephemeral_storage = DiskUsage{Bytes{100}, 10};
  container_of(statistics, "app").logs = DiskUsage{Bytes{100}, 10};
  ContainerSample app;
  app.name = "app";
  app.rootfs = DiskUsage{Bytes{50}, std::nullopt};
  ContainerSample other;
  other.name = "other";
  other.rootfs = DiskUsage{Bytes{7}, 1};
  add_writable_layers({app, other, ContainerSample{"unknown", {}, {}, {}}}, statistics);
  ASSERT_EQ(statistics.containers.size(), 2u);
  EXPECT_EQ(statistics.containers[0].rootfs, app.rootfs);
  EXPECT_TRUE(statistics.containers[0].logs);
  EXPECT_EQ(statistics.containers[1].name, "other");
  EXPECT_EQ(statistics.ephemeral_storage, (DiskUsage{Bytes{157}, 11}));
}

}  // namespace
}  // namespace forestall::sources
