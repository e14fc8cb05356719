// SPDX-License-Identifier: Apache-2.0
#include "sources/container_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/pod_statistics.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::IsEmpty;

TEST(ContainerId, OfBothDriversAndEveryRuntime) {
  EXPECT_EQ(container_id("0123abc"), "0123abc");
  EXPECT_EQ(container_id("cri-containerd-0123abc.scope"), "0123abc");
  EXPECT_EQ(container_id("crio-0123abc.scope"), "0123abc");
  EXPECT_EQ(container_id("docker-0123abc.scope"), "0123abc");
  EXPECT_EQ(container_id("plain.scope"), "plain");
  EXPECT_EQ(container_id(".scope"), "");
  EXPECT_EQ(container_id(""), "");
}

class ContainerSamples : public ::testing::Test {
 protected:
  ContainerSamples() {
    add("pod", 900, 0);
    add("pod/aa11", 500, 100);
    add("pod/cri-containerd-bb22.scope", 50, 60);
    add("pod/cc33", 7, 0);
    files_.write("cgroup/pod/without/cgroup.procs", "");
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    if (!found) throw std::runtime_error(found.error().text());
    tree_ = std::move(found).value();
    sample_.workload.path = "/pod";
    sample_.workload.cgroup = tree_.open("/pod")->id();
  }
  void add(const std::string& cgroup, int usage, int inactive) {
    files_.write("cgroup/" + cgroup + "/memory.current", std::to_string(usage) + "\n");
    files_.write("cgroup/" + cgroup + "/memory.stat",
                 "inactive_file " + std::to_string(inactive) + "\n");
  }
  // Name and working set of each container.
  std::map<std::string, std::int64_t> seen() {
    std::string buffer;
    add_container_samples(tree_, sample_, buffer);
    std::map<std::string, std::int64_t> sets;
    for (const auto& container : sample_.statistics->containers) {
      sets[container.name] = container.working_set.value_or(Bytes{-1}).count;
    }
    return sets;
  }
  test::TempTree files_{{"cgroup/cgroup.controllers", "memory\n"}};
  kernel::CgroupTree tree_;
  WorkloadSample sample_;
};

TEST_F(ContainerSamples, AreNamedByThePodOrTheirCgroup) {
  Pod pod;
  pod.containers.push_back({"app", "aa11", {}, {}, false});
  pod.containers.push_back({"starting", "", {}, {}, false});
  pod.init_containers.push_back({"sidecar", "bb22", {}, {}, true});
  sample_.workload.pod = std::make_shared<const Pod>(pod);
  const std::map<std::string, std::int64_t> expected{{"app", 400}, {"cc33", 7}, {"sidecar", 0}};
  EXPECT_EQ(seen(), expected);
}

TEST_F(ContainerSamples, JoinWhatTheWalkFound) {
  Pod pod;
  pod.containers.push_back({"app", "aa11", {}, {}, false});
  sample_.workload.pod = std::make_shared<const Pod>(pod);
  container_of(sample_.statistics.emplace(), "app").logs = DiskUsage{Bytes{5}, 1};
  EXPECT_EQ(seen()["app"], 400);
  EXPECT_TRUE(container_of(*sample_.statistics, "app").logs);
  EXPECT_EQ(sample_.statistics->containers.size(), 3u);
}

TEST_F(ContainerSamples, OfAnUnknownPodByCgroup) {
  const std::map<std::string, std::int64_t> expected{
      {"aa11", 400}, {"cc33", 7}, {"cri-containerd-bb22.scope", 0}};
  EXPECT_EQ(seen(), expected);
}

TEST_F(ContainerSamples, OfAPodThatIsGoneThereAreNone) {
  sample_.workload.cgroup.inode += 1;  // another cgroup was made with its path
  EXPECT_THAT(seen(), IsEmpty());
}

}  // namespace
}  // namespace forestall::sources
