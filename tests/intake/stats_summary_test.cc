// SPDX-License-Identifier: Apache-2.0
// The output of kubelet's /stats/summary, as samples; and its errors with their places.
#include "intake/stats_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_tree.h"

namespace forestall::intake {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

StatsSummary summary(const std::string& file) {
  const auto read = parse_stats_summary(test::read_text(FORESTALL_TEST_DATA "/kubernetes/" + file));
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? *read : StatsSummary{};
}

StatsSummary parsed(const std::string& json) {
  const auto read = parse_stats_summary(json);
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? *read : StatsSummary{};
}

std::string stats_problem(const std::string& json) {
  const auto read = parse_stats_summary(json);
  EXPECT_FALSE(read) << json;
  return read ? "" : read.error().text();
}

const PodStatsEntry& entry(const StatsSummary& from, const std::string& name) {
  static const PodStatsEntry kNone;
  for (const PodStatsEntry& each : from.pods) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << "no entry for " << name;
  return kNone;
}

TEST(StatsSummary, TheNodesFigures) {
  const StatsSummary node = summary("node.stats.json");
  EXPECT_EQ(node.node, "worker-1");
  EXPECT_EQ(node.time, "2026-11-21T10:00:00Z");
  EXPECT_EQ(node.memory.capacity, gib(32));
  EXPECT_EQ(node.memory.usage, gib(32) - mib(80));
  EXPECT_EQ(node.memory.inactive_file, Bytes{0});
  ASSERT_TRUE(node.pods_cgroup);
  EXPECT_EQ(node.pods_cgroup->limit, gib(28));
  EXPECT_EQ(node.pods_cgroup->usage, gib(24));
  EXPECT_EQ(node.tasks.capacity, 32768);
  EXPECT_EQ(node.tasks.running, 812);
  ASSERT_TRUE(node.filesystems.nodefs);
  EXPECT_EQ(node.filesystems.nodefs->available, Bytes{10508926156});
  EXPECT_EQ(node.filesystems.nodefs->capacity, Bytes{105089261568});
  EXPECT_EQ(node.filesystems.nodefs->inodes_free, 5100000);
  EXPECT_EQ(node.filesystems.nodefs->inodes, 6553600);
  ASSERT_TRUE(node.filesystems.imagefs);
  EXPECT_EQ(node.filesystems.imagefs->capacity, Bytes{214748364800});
}

TEST(StatsSummary, APodsParts) {
  const StatsSummary node = summary("node.stats.json");
  const PodStatsEntry& web = entry(node, "web-0");
  EXPECT_EQ(web.pod_namespace, "default");
  EXPECT_EQ(web.working_set, mib(500));
  EXPECT_EQ(web.processes, 9u);
  ASSERT_EQ(web.statistics.containers.size(), 1u);
  const ContainerSample& nginx = web.statistics.containers[0];
  EXPECT_EQ(nginx.name, "nginx");
  EXPECT_EQ(nginx.working_set, mib(480));
  EXPECT_EQ(nginx.rootfs, (DiskUsage{mib(30), 20}));
  EXPECT_EQ(nginx.logs, (DiskUsage{mib(200), 1}));
  ASSERT_EQ(web.statistics.volumes.size(), 2u);
  EXPECT_EQ(web.statistics.volumes[1], (VolumeSample{"cache", {mib(700), 120}}));
  EXPECT_EQ(web.statistics.ephemeral_storage, std::nullopt);
  EXPECT_EQ(entry(node, "batch-7").statistics.ephemeral_storage, (DiskUsage{mib(1760), 90044}));
}

TEST(StatsSummary, MissingValuesAreUnknownNotZero) {
  const StatsSummary bare = parsed(R"({"node": {}, "pods": [{"podRef": {"uid": "u"}}]})");
  EXPECT_EQ(bare.memory, NodeSample{});
  EXPECT_EQ(bare.pods_cgroup, std::nullopt);
  EXPECT_EQ(bare.tasks, TaskSample{});
  EXPECT_EQ(bare.filesystems, FilesystemSamples{});
  ASSERT_EQ(bare.pods.size(), 1u);
  EXPECT_EQ(bare.pods[0].working_set, std::nullopt);
  EXPECT_EQ(bare.pods[0].processes, std::nullopt);
  EXPECT_EQ(bare.pods[0].statistics, PodStatistics{});
  const StatsSummary nulls = parsed(R"({"node": null, "pods": [{"podRef": {"uid": "u"},
      "memory": {"workingSetBytes": null}, "process_stats": null, "containers": null,
      "volume": null, "ephemeral-storage": null}]})");
  EXPECT_EQ(nulls.pods, bare.pods);
  EXPECT_THAT(parsed(R"({"pods": null, "node": {}})").pods, IsEmpty());
}

// A filesystem without inode numbers (XFS with dynamic ones, or a runtime that does not count).
TEST(StatsSummary, AUsageMayLackItsInodes) {
  const StatsSummary read = parsed(R"({"pods": [{"podRef": {"uid": "u"}, "containers": [
      {"name": "a", "rootfs": {"usedBytes": 5}, "logs": {"inodesUsed": 7}}]}]})");
  const ContainerSample& container = read.pods[0].statistics.containers[0];
  EXPECT_EQ(container.rootfs, (DiskUsage{Bytes{5}, std::nullopt}));
  EXPECT_EQ(container.logs, (DiskUsage{std::nullopt, 7}));
  EXPECT_EQ(container.working_set, std::nullopt);
}

// Kubelet subtracts unsigned values and reads the result as signed (kubernetes issue 52386).
TEST(StatsSummary, NegativeAvailableIsWrapped) {
  const StatsSummary read = parsed(
      R"({"node": {"memory": {"availableBytes": 18446744073709551516, "workingSetBytes": 1100}}})");
  EXPECT_EQ(read.memory.capacity, Bytes{1000});
  EXPECT_EQ(read.memory.usage, Bytes{1100});
}

TEST(StatsSummary, LayoutsByTheirFigures) {
  EXPECT_EQ(summary("disk.stats.json").filesystems.layout, FilesystemLayout::single);
  EXPECT_EQ(summary("node.stats.json").filesystems.layout, FilesystemLayout::imagefs);

  const FilesystemSample root{gib(10), gib(100), 500, 1000, {}};
  const FilesystemSample images{gib(50), gib(200), 900, 2000, {}};
  const auto layout = [](std::optional<FilesystemSample> nodefs,
                         std::optional<FilesystemSample> imagefs,
                         std::optional<FilesystemSample> containerfs) {
    return layout_of({std::nullopt, nodefs, imagefs, containerfs});
  };
  EXPECT_EQ(layout(root, root, root), FilesystemLayout::single);
  EXPECT_EQ(layout(root, root, std::nullopt), FilesystemLayout::single);
  EXPECT_EQ(layout(root, images, images), FilesystemLayout::imagefs);
  EXPECT_EQ(layout(root, images, std::nullopt), FilesystemLayout::imagefs);
  EXPECT_EQ(layout(root, images, root), FilesystemLayout::split);
  // Two disks of one size are distinguished by their contents.
  FilesystemSample twin = root;
  twin.available = gib(20);
  EXPECT_EQ(layout(root, twin, twin), FilesystemLayout::imagefs);
  twin = root;
  twin.inodes_free = 400;
  EXPECT_EQ(layout(root, twin, twin), FilesystemLayout::imagefs);
  twin.inodes_free.reset();
  EXPECT_EQ(layout(root, twin, twin), FilesystemLayout::single);
  // Unknown is not a layout.
  EXPECT_EQ(layout(root, std::nullopt, std::nullopt), std::nullopt);
  EXPECT_EQ(layout(std::nullopt, images, images), std::nullopt);
  twin.available.reset();
  EXPECT_EQ(layout(root, twin, std::nullopt), std::nullopt);
}

TEST(StatsSummary, MistakesNameTheirPlace) {
  EXPECT_THAT(stats_problem("{}"), HasSubstr("expected the output of kubelet's /stats/summary"));
  EXPECT_EQ(stats_problem("[]"), "expected an object, found a list");
  EXPECT_EQ(stats_problem(R"({"pods": [{}]})"), "pods[0]: 'podRef' is missing");
  EXPECT_EQ(stats_problem(R"({"pods": [{"podRef": {"name": "a"}}]})"),
            "pods[0].podRef: 'uid' is missing");
  EXPECT_EQ(stats_problem(R"({"pods": [{"podRef": {"uid": ""}}]})"),
            "pods[0].podRef.uid: must not be empty");
  EXPECT_EQ(stats_problem(R"({"pods": [{"podRef": {"uid": "u"}}, {"podRef": {"uid": "u"}}]})"),
            "pods[1]: podRef.uid: same UID as pods[0]: u");
  EXPECT_EQ(stats_problem(
                R"({"pods": [{"podRef": {"uid": "u"}, "memory": {"workingSetBytes": "1Mi"}}]})"),
            "pods[0].memory.workingSetBytes: expected a whole number, found a string");
  EXPECT_EQ(stats_problem(R"({"pods": [{"podRef": {"uid": "u"}, "containers": [{"name": "a"},
                        {"rootfs": {"usedBytes": -1}}]}]})"),
            "pods[0].containers[1].rootfs.usedBytes: must not be negative: -1");
  EXPECT_EQ(stats_problem(R"({"node": {"runtime": {"imageFs": []}}})"),
            "node.runtime.imageFs: expected an object, found a list");
  EXPECT_EQ(stats_problem(R"({"node": {"rlimit": {"maxpid": 1.5}}})"),
            "node.rlimit.maxpid: expected a whole number, found 1.5");
  EXPECT_EQ(stats_problem("{\"node\": {\n\"fs\": {,}}}"),
            "2:8: invalid JSON: missing or unexpected characters");
}

// Programs that use doubles print them this way.
TEST(StatsSummary, AWholeNumberMayBeWrittenAsAFraction) {
  EXPECT_EQ(parsed(R"({"pods": [{"podRef": {"uid": "u"}, "memory": {"workingSetBytes": 1.3e9}}]})")
                .pods[0]
                .working_set,
            Bytes{1300000000});
}

}  // namespace
}  // namespace forestall::intake
