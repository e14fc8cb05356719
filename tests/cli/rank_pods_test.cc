// SPDX-License-Identifier: Apache-2.0
// `forestall rank --pods … --stats …`: the examples of the Kubernetes documentation
// (node-pressure-eviction), every resource and layout, protected and unranked pods, and the
// explanation of the first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/pod_command_run.h"
#include "forestall/v1/report.pb.h"

namespace forestall::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

v1::RankReport rank(const std::string& example, const std::string& signal,
                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = rank_arguments(example, signal);
  arguments.insert(arguments.end(), more.begin(), more.end());
  return json_of<v1::RankReport>(arguments);
}

std::vector<std::string> names(const v1::RankReport& report) {
  std::vector<std::string> all;
  for (const v1::RankedPod& each : report.pods()) all.push_back(each.pod().name());
  return all;
}

const v1::RankedPod& ranked(const v1::RankReport& report, const std::string& name) {
  for (const v1::RankedPod& each : report.pods()) {
    if (each.pod().name() == name) return each;
  }
  ADD_FAILURE() << name << " is not ranked";
  return v1::RankedPod::default_instance();
}

std::string rank_printed(const std::vector<std::string>& arguments) {
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.errors, "");
  return ran.output;
}

std::string rank_refusal(const std::vector<std::string>& arguments) {
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 2) << ran.output;
  EXPECT_EQ(ran.output, "");
  return ran.errors;
}

TEST(RankPods, ThePublishedDiskExample) {
  const v1::RankReport report = rank("disk", "nodefs.available");
  EXPECT_THAT(names(report), ElementsAre("b", "c", "f", "a", "d", "e"));
  EXPECT_EQ(report.resource(), "ephemeral-storage");
  EXPECT_EQ(report.fs_layout(), "single");
  EXPECT_EQ(report.fs_layout_from(), "summary");
  const v1::RankedPod& first = report.pods(0);
  EXPECT_EQ(first.usage(), 1300'000'000);
  EXPECT_EQ(first.request(), 0);
  EXPECT_EQ(first.over_request(), 1300'000'000);
  EXPECT_TRUE(first.exceeds_request());
  EXPECT_EQ(first.decided_by(), "over-request");
  EXPECT_EQ(first.qos_class(), "Guaranteed");
  EXPECT_FALSE(report.pods(5).has_decided_by());
}

TEST(RankPods, ThePublishedMemoryExample) {
  const v1::RankReport report = rank("memory", "memory.available");
  EXPECT_THAT(names(report), ElementsAre("c", "a", "e", "b", "d", "f"));
  EXPECT_EQ(ranked(report, "e").decided_by(), "exceeds-request");
  EXPECT_EQ(ranked(report, "c").request(), 1073741824);
  EXPECT_EQ(ranked(report, "f").over_request(), 1000'000'000 - 2147483648);
  EXPECT_EQ(report.victim().name(), "c");
  EXPECT_THAT(names(rank("memory", "allocatableMemory.available")),
              ElementsAre("c", "a", "e", "b", "d", "f"));
}

TEST(RankPods, TextMatchesTheGoldenFile) {
  EXPECT_EQ(rank_printed(rank_arguments("disk", "nodefs.available")), golden("rank_disk.txt"));
  EXPECT_EQ(rank_printed(rank_arguments("memory", "memory.available")), golden("rank_memory.txt"));
  EXPECT_EQ(rank_printed(rank_arguments("node", "memory.available")),
            golden("rank_node_memory.txt"));
  EXPECT_EQ(rank_printed(rank_arguments("node", "nodefs.available")),
            golden("rank_node_nodefs.txt"));
  EXPECT_EQ(rank_printed(rank_arguments("node", "imagefs.inodesFree")),
            golden("rank_node_imagefs_inodes.txt"));
  EXPECT_EQ(rank_printed(rank_arguments("node", "pid.available")), golden("rank_node_pids.txt"));
}

// A pod without statistics is ranked first, for every resource.
TEST(RankPods, MissingStatisticsGoFirst) {
  for (const char* signal : {"memory.available", "nodefs.available", "imagefs.inodesFree"}) {
    const v1::RankReport report = rank("node", signal);
    EXPECT_EQ(names(report).front(), "just-started") << signal;
    EXPECT_EQ(report.pods(0).decided_by(), "missing-statistics") << signal;
    EXPECT_FALSE(report.pods(0).measured());
    EXPECT_FALSE(report.pods(0).has_usage());
    EXPECT_FALSE(report.pods(0).has_exceeds_request());
    EXPECT_EQ(report.victim().name(), "just-started") << signal;
  }
  // Its request is still known.
  EXPECT_EQ(rank("node", "memory.available").pods(0).request(), 128 << 20);
}

TEST(RankPods, ProcessesGoByPriorityAndNumber) {
  const v1::RankReport report = rank("node", "pid.available");
  EXPECT_EQ(report.resource(), "pids");
  EXPECT_THAT(std::vector<std::string>(report.comparators().begin(), report.comparators().end()),
              ElementsAre("preference", "priority", "missing-statistics", "processes"));
  EXPECT_THAT(names(report),
              ElementsAre("batch-7", "just-started", "scraper", "budgeted", "resized", "leaving",
                          "web-0", "kube-apiserver-worker-1", "kube-proxy-8x2lq"));
  EXPECT_EQ(ranked(report, "scraper").usage(), 400);
  EXPECT_FALSE(ranked(report, "scraper").has_request());
  EXPECT_EQ(report.pods(0).decided_by(), "priority");
}

TEST(RankPods, ProtectedPodsAreRankedAndPassedOver) {
  const v1::RankReport report = rank("node", "memory.available");
  const v1::RankedPod& mirror = ranked(report, "kube-apiserver-worker-1");
  // Its statistics have the UID of the static pod.
  EXPECT_TRUE(mirror.measured());
  EXPECT_EQ(mirror.usage(), std::int64_t{950} << 20);
  EXPECT_EQ(mirror.protection(), "static-pod");
  EXPECT_EQ(mirror.protection_reason(), "static pod (mirror)");
  const v1::RankedPod& critical = ranked(report, "kube-proxy-8x2lq");
  EXPECT_EQ(critical.protection(), "critical");
  EXPECT_EQ(critical.protection_reason(), "critical (priority 2000001000)");
  EXPECT_EQ(ranked(report, "web-0").protection(), "none");
  for (const v1::Candidate& each : report.order()) {
    const bool spared = each.sample().workload().name().starts_with("kube-");
    EXPECT_EQ(each.exclusion() == v1::Candidate::PROTECTED, spared);
  }
}

TEST(RankPods, NamesUnrankedPods) {
  const v1::RankReport report = rank("node", "memory.available");
  ASSERT_EQ(report.left_out_size(), 2);
  EXPECT_EQ(report.left_out(0).pod().name(), "done-job");
  EXPECT_EQ(report.left_out(0).reason(), "finished");
  EXPECT_EQ(report.left_out(1).pod().name(), "elsewhere");
  EXPECT_EQ(report.left_out(1).reason(), "other-node");
  EXPECT_THAT(report.unmatched_statistics(), IsEmpty());
  // Failed, but still being removed.
  EXPECT_TRUE(ranked(report, "leaving").measured());
  const TempTree tree{{"other.json", R"({"node": {}, "pods": [{"podRef": {"uid": "stranger",
      "name": "gone", "namespace": "jobs"}}]})"}};
  std::vector<std::string> arguments = rank_arguments("memory", "memory.available");
  arguments[6] = tree / "other.json";
  const auto other = json_of<v1::RankReport>(arguments);
  EXPECT_EQ(other.pods_size(), 6);
  ASSERT_EQ(other.unmatched_statistics_size(), 1);
  EXPECT_EQ(other.unmatched_statistics(0).name(), "gone");
  EXPECT_EQ(other.fs_layout_from(), "default");
}

TEST(RankPods, RequestsOfEveryKind) {
  const v1::RankReport report = rank("node", "memory.available");
  // max(sidecar + regular = 64 + 288, fetch = 400) + 20 of overhead.
  EXPECT_EQ(ranked(report, "batch-7").request(), std::int64_t{420} << 20);
  EXPECT_EQ(ranked(report, "budgeted").request(), std::int64_t{200} << 20);
  EXPECT_EQ(ranked(report, "resized").request(), std::int64_t{1} << 30);
  EXPECT_TRUE(ranked(report, "resized").exceeds_request());
}

// Usage of one pod: 30 + 20 of layers and logs, 700 of a volume on disk, 30 in memory.
TEST(RankPods, CountedUsageDependsOnTheLayout) {
  const auto usage = [](const std::string& signal, const std::string& layout) {
    const v1::RankReport report = rank("node", signal, {"--fs-layout", layout});
    EXPECT_EQ(report.fs_layout(), layout);
    EXPECT_EQ(report.fs_layout_from(), "option");
    return ranked(report, "web-0").usage() >> 20;
  };
  EXPECT_EQ(usage("nodefs.available", "single"), 30 + 200 + 700);
  EXPECT_EQ(usage("imagefs.available", "single"), 30 + 200 + 700);
  EXPECT_EQ(usage("containerfs.available", "single"), 30 + 200 + 700);
  EXPECT_EQ(usage("nodefs.available", "imagefs"), 200 + 700);
  EXPECT_EQ(usage("imagefs.available", "imagefs"), 30);
  EXPECT_EQ(usage("containerfs.available", "imagefs"), 30);
  EXPECT_EQ(usage("nodefs.available", "split"), 30 + 200 + 700);
  EXPECT_EQ(usage("imagefs.available", "split"), 0);
  EXPECT_EQ(usage("containerfs.available", "split"), 30 + 200 + 700);
  EXPECT_EQ(rank("node", "nodefs.available").fs_layout(), "imagefs");
  EXPECT_EQ(rank("node", "nodefs.available").fs_layout_from(), "summary");
}

// As in kubelet: the request for ephemeral storage, in bytes, is subtracted from the number of
// inodes.
TEST(RankPods, InodesLessBytes) {
  const v1::RankReport report = rank("node", "imagefs.inodesFree");
  const v1::RankedPod& batch = ranked(report, "batch-7");
  EXPECT_EQ(batch.usage(), 90000 + 20 + 20);
  EXPECT_TRUE(batch.exceeds_request());
  EXPECT_EQ(batch.over_request(), 90040 - (std::int64_t{1} << 30));
}

TEST(RankPods, MessageGraceAndAnnotationsOfTheFirst) {
  const v1::RankReport report = rank("memory", "memory.available");
  EXPECT_EQ(report.eviction().message(),
            "The node was low on resource: memory. Container main was using 1790000000, request is "
            "1Gi, has larger consumption of memory. ");
  EXPECT_EQ(report.eviction().grace_ns(), 1'000'000'000);
  EXPECT_TRUE(report.eviction().at_once());
  EXPECT_EQ(report.eviction().metric_signal(), "memory.available");
  EXPECT_TRUE(report.eviction().disruption_target());
  EXPECT_EQ(report.eviction().annotations_size(), 3);
  // The default threshold of 100Mi is not met with 6Gi available.
  EXPECT_FALSE(report.evidence().met());
  EXPECT_EQ(report.evidence().limit_quantity(), "100Mi");
}

TEST(RankPods, AThresholdThatIsMetIsQuoted) {
  const v1::RankReport hard = rank("node", "memory.available");
  EXPECT_TRUE(hard.evidence().met());
  EXPECT_THAT(hard.eviction().message(), HasSubstr("Threshold quantity: 100Mi, available: 80Mi. "));
  const TempTree tree{{"soft.yaml",
                       "evictionHard: {}\nevictionSoft: {memory.available: 1Gi}\n"
                       "evictionSoftGracePeriod: {memory.available: 2m}\n"
                       "evictionMaxPodGracePeriod: 45\n"}};
  std::vector<std::string> arguments = rank_arguments("node", "memory.available");
  arguments[2] = tree / "soft.yaml";
  const auto soft = json_of<v1::RankReport>(arguments);
  EXPECT_THAT(soft.eviction().message(), HasSubstr("Threshold quantity: 1Gi, available: 80Mi. "));
  EXPECT_EQ(soft.eviction().grace_ns(), 30'000'000'000);
  EXPECT_FALSE(soft.eviction().at_once());
}

TEST(RankPods, StandardInputIsADash) {
  std::vector<std::string> arguments = rank_arguments("memory", "memory.available");
  const std::string file = arguments[4];
  arguments[4] = "-";
  const TempTree tree;
  std::string command = forestall_executable();
  for (const std::string& each : arguments) command += " '" + each + "'";
  command += " <'" + file + "' >'" + (tree / "out") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_text(tree / "out"), golden("rank_memory.txt"));
}

TEST(RankPods, MistakesAreRefusedWithTheirPlace) {
  std::vector<std::string> arguments = rank_arguments("disk", "disk.available");
  EXPECT_THAT(rank_refusal(arguments),
              AllOf(HasSubstr("unknown signal 'disk.available'"), HasSubstr("memory.available"),
                    HasSubstr("containerfs.inodesFree"), HasSubstr("pid.available")));
  arguments = rank_arguments("disk", "nodefs.available");
  arguments.insert(arguments.end(), {"--fs-layout", "double"});
  EXPECT_THAT(rank_refusal(arguments), HasSubstr("expected single, imagefs or split"));
  EXPECT_THAT(rank_refusal({"rank", "--pods", "x"}), HasSubstr("--stats"));
  EXPECT_THAT(rank_refusal({"rank", "--stats", "x"}), HasSubstr("--pods"));
  EXPECT_THAT(rank_refusal({"rank", "--pods", "-", "--stats", "-"}), HasSubstr("standard input"));
  EXPECT_THAT(rank_refusal({"rank", "--pods", "/nonexistent", "--stats", "/nonexistent"}),
              HasSubstr("/nonexistent: No such file"));

  const TempTree tree{{"broken.json", "{\n  \"kind\": \"List\",\n  \"items\": [}\n"},
                      {"bad.json",
                       R"({"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "web-0",
                           "namespace": "default", "uid": "u"}, "spec": {"containers": [{"name":
                           "a", "resources": {"requests": {"memory": "1 GB"}}}]}}]})"}};
  arguments = rank_arguments("disk", "nodefs.available");
  arguments[4] = tree / "broken.json";
  EXPECT_THAT(rank_refusal(arguments), HasSubstr("broken.json:3:13: invalid JSON"));
  arguments[4] = tree / "bad.json";
  EXPECT_THAT(rank_refusal(arguments),
              HasSubstr("bad.json: items[0] (default/web-0): "
                        "spec.containers[0].resources.requests.memory: quantities must match"));
  arguments = rank_arguments("disk", "nodefs.available");
  arguments[6] = arguments[4];
  EXPECT_THAT(rank_refusal(arguments), HasSubstr("disk.pods.json: neither 'node' nor 'pods'"));
}

}  // namespace
}  // namespace forestall::test
