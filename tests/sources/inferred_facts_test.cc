// SPDX-License-Identifier: Apache-2.0
// What the node shows of a pod, on a copy of a cgroup tree and a procfs.
#include "sources/inferred_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "support/descriptors_used_up.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

constexpr Bytes kCapacity{1'000'000};

class InferredFactsTest : public ::testing::Test {
 protected:
  InferredFactsTest() : files_{{"cgroup/cgroup.controllers", "memory\n"}} {
    process("pause", 1, -998);
    pod_.path = "/pod";
    reset();
    auto tree = kernel::CgroupTree::discover(files_ / "cgroup");
    EXPECT_TRUE(tree);
    tree_.emplace(std::move(*tree));
  }
  // A container with one process more.
  void process(const std::string& container, int pid, int oom_score_adj) {
    auto& processes = processes_[container];
    processes += std::to_string(pid) + "\n";
    files_.write("cgroup/pod/" + container + "/cgroup.procs", processes);
    set(pid, oom_score_adj);
  }
  void set(int pid, int oom_score_adj) {
    files_.write("proc/" + std::to_string(pid) + "/oom_score_adj",
                 std::to_string(oom_score_adj) + "\n");
  }
  // As the observer finds the pod at each rescan.
  void reset() { pod_.inferred = InferredFacts{QosClass::burstable, {}, {}}; }
  const InferredFacts& refresh() {
    reset();
    inference_.refresh(host(), pod_);
    return *pod_.inferred;
  }
  const InferredFacts& complete() {
    inference_.complete(host(), pod_);
    return *pod_.inferred;
  }
  [[nodiscard]] InferenceHost host() const { return {*tree_, files_ / "proc", kCapacity}; }

  test::TempTree files_;
  std::map<std::string, std::string> processes_;
  std::optional<kernel::CgroupTree> tree_;
  Workload pod_;
  PodInference inference_;
};

TEST_F(InferredFactsTest, TheSandboxShowsNothing) {
  EXPECT_EQ(refresh().oom_score_adj, std::nullopt);
  EXPECT_EQ(refresh().memory_request, std::nullopt);
}

TEST_F(InferredFactsTest, TheLowestValueOfAllContainersCounts) {
  process("app", 10, 950);
  process("app", 11, 1000);  // a process may raise its own value
  process("side", 20, 990);
  EXPECT_EQ(refresh().oom_score_adj, 950);
  EXPECT_EQ(refresh().memory_request, Bytes{51'000 + 11'000}) << "at most 5.1 % and 1.1 %";
}

TEST_F(InferredFactsTest, ABestEffortPodRequestsNothing) {
  process("app", 10, 1000);
  EXPECT_EQ(refresh().oom_score_adj, 1000);
  EXPECT_EQ(refresh().memory_request, Bytes{0});
}

TEST_F(InferredFactsTest, ANodeCriticalPodShowsNoRequest) {
  process("app", 10, -997);
  EXPECT_EQ(refresh().oom_score_adj, -997);
  EXPECT_EQ(refresh().memory_request, std::nullopt);
}

TEST_F(InferredFactsTest, FindsProcessesBelowAContainersOwnCgroup) {
  files_.write("cgroup/pod/app/cgroup.procs", "");
  process("app/init.scope", 10, 900);
  EXPECT_EQ(refresh().oom_score_adj, 900);
}

// The runtime creates the cgroup, moves a process of its own into it, and then sets the value.
TEST_F(InferredFactsTest, AContainerThatIsBeingCreatedIsReadAgain) {
  files_.write("cgroup/pod/app/cgroup.procs", "");
  EXPECT_EQ(refresh().oom_score_adj, std::nullopt);
  process("app", 10, 0);
  EXPECT_EQ(complete().oom_score_adj, 0);
  set(10, 998);
  EXPECT_EQ(complete().oom_score_adj, 998);
  EXPECT_EQ(complete().memory_request, Bytes{3'000});
  set(10, 1000);
  EXPECT_EQ(complete().oom_score_adj, 998) << "settled: the value of a container does not change";
  EXPECT_EQ(refresh().oom_score_adj, 998);
}

TEST_F(InferredFactsTest, AnotherContainerIsReadAtTheNextRescan) {
  process("app", 10, 998);
  EXPECT_EQ(refresh().memory_request, Bytes{3'000});
  process("next", 20, 990);
  EXPECT_EQ(refresh().oom_score_adj, 990);
  EXPECT_EQ(refresh().memory_request, Bytes{3'000 + 11'000});
}

TEST_F(InferredFactsTest, APodWithFactsOfKubernetesIsNotInferred) {
  process("app", 10, 998);
  pod_.inferred.reset();
  inference_.refresh(host(), pod_);
  inference_.complete(host(), pod_);
  EXPECT_EQ(pod_.inferred, std::nullopt);
}

// The unread container may be the one that makes the pod critical.
TEST_F(InferredFactsTest, NothingIsInferredFromAPartOfAPod) {
  process("app", 10, 950);
  files_.write("cgroup/pod/critical/cgroup.procs", "");
  process("critical/init.scope", 20, -997);  // takes more descriptors to read
  for (std::size_t left = 0; left < 8; ++left) {
    const test::DescriptorsUsedUp used_up(left);
    const auto value = refresh().oom_score_adj;
    EXPECT_NE(value, 950) << left;
    EXPECT_NE(complete().oom_score_adj, 950) << left;
    inference_ = {};
  }
  EXPECT_EQ(complete().oom_score_adj, -997);
}

TEST_F(InferredFactsTest, WhatWasInferredStaysWhileThePodCannotBeOpened) {
  process("app", 10, 950);
  const InferredFacts before = refresh();
  const test::DescriptorsUsedUp none;
  EXPECT_EQ(refresh(), before);
}

// pkg/kubelet/qos/policy.go: 1000 - 1000 * request / capacity, truncated, limited to 3..999.
TEST(MostRequested, IsNeverLessThanWhatWasRequested) {
  constexpr std::int64_t kNode = 24'000'003;
  for (std::int64_t request = 0; request < kNode; request += 9'973) {
    const std::int64_t computed = 1000 - 1000 * request / kNode;
    const auto value = static_cast<std::int32_t>(std::clamp<std::int64_t>(computed, 3, 999));
    EXPECT_GE(most_requested(value, Bytes{kNode}), Bytes{request}) << value;
    const bool may_be_limited = value == 3;
    if (!may_be_limited) {
      EXPECT_LE(most_requested(value, Bytes{kNode}), Bytes{request + kNode / 500}) << value;
    }
  }
}

}  // namespace
}  // namespace forestall::sources
