// SPDX-License-Identifier: Apache-2.0
// oom_score_adj by QoS class and request.
#include "policy/oom_score_adj.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/policy/pods.h"

namespace forestall::policy::oom_score_adj_test {
namespace {

constexpr Bytes kCapacity = gib(30);

PodContainer guaranteed(const std::string& name) {
  return container(name, amounts("1", "1Gi"), amounts("1", "1Gi"));
}

std::int64_t adj_of(const std::string& request, Bytes capacity = kCapacity) {
  const Pod made = pod("p", {container("a", amounts("1", request))});
  return oom_score_adj(made, made.containers[0], capacity);
}

// The example of the Kubernetes documentation (node-pressure-eviction, oom_score_adj).
TEST(OomScoreAdjTest, KubeletsWorkedExample) {
  EXPECT_EQ(adj_of("4Gi"), 867);
  const Pod best_effort = pod("b", {container("a")});
  EXPECT_EQ(oom_score_adj(best_effort, best_effort.containers[0], kCapacity), 1000);
  const Pod made = pod("g", {guaranteed("a")});
  EXPECT_EQ(oom_score_adj(made, made.containers[0], kCapacity), -997);
}

TEST(OomScoreAdjTest, BurstableStaysBetweenTheOthers) {
  const std::vector<std::pair<std::string, std::int64_t>> cases{
      {"0", 999},                      // 1000, lowered
      {"", 999},                       // not declared
      {"32212254", 999},               // 0.99998 per mille, truncated
      {"32212255", 999},               // 1 per mille
      {"64424509", 999},               // 1.99998 per mille, truncated
      {"64424510", 998},               // 2 per mille
      {"15Gi", 500},                   // half
      {"30601641983", 51},             // 949.99997 per mille, truncated
      {"30601641984", 50},             // 950 per mille
      {"32115617955", 4},              // 996.99997 per mille, truncated
      {"32115617956", 3},              // 997 per mille
      {"32147830211", 3},              // 998 per mille: 2, raised
      {"30Gi", 3},                     // all: 0, raised
      {"60Gi", 3},                     // twice: -1000, raised
      {"9223372036854775", 3},         // the largest that does not wrap around
      {"9223372036854776", 286332153}  // 1000 * request is -2^63 + 192 now, as in kubelet
  };
  for (const auto& [request, adj] : cases) EXPECT_EQ(adj_of(request), adj) << request;
}

TEST(OomScoreAdjTest, UnknownCapacityIsEndless) {
  EXPECT_EQ(adj_of("4Gi", Bytes{0}), 999);
}

TEST(OomScoreAdjTest, NodeCriticalPodsAreLikeGuaranteedOnes) {
  Pod made = pod("p", {container("a")});
  made.priority_class = "system-node-critical";
  const auto adj = [&] { return oom_score_adj(made, made.containers[0], kCapacity); };
  EXPECT_EQ(adj(), 1000) << "the name alone does not make it critical";
  made.priority = 2'000'001'000;
  EXPECT_EQ(adj(), -997);
  made.priority.reset();
  made.origin = PodOrigin::static_file;
  EXPECT_EQ(adj(), -997);
  made.priority_class = "system-cluster-critical";
  EXPECT_EQ(adj(), 1000);
}

// The score depends on the container, the class on its pod.
TEST(OomScoreAdjTest, ContainersOfOnePodDiffer) {
  const Pod made = pod("p", {container("a", memory("15Gi")), container("b")});
  EXPECT_EQ(oom_score_adj(made, made.containers[0], kCapacity), 500);
  EXPECT_EQ(oom_score_adj(made, made.containers[1], kCapacity), 999);
}

TEST(OomScoreAdjTest, ASidecarIsNoWorseThanTheSmallestRegularContainer) {
  const Pod made = pod("p", {container("a", memory("15Gi")), container("b", memory("3Gi"))},
                       {sidecar("small", memory("1Gi")), sidecar("large", memory("6Gi")),
                        container("init", memory("1Gi"))});
  EXPECT_EQ(oom_score_adj(made, made.init_containers[0], kCapacity), 900);
  EXPECT_EQ(oom_score_adj(made, made.init_containers[1], kCapacity), 800);
  EXPECT_EQ(oom_score_adj(made, made.init_containers[2], kCapacity), 967) << "not a sidecar";
}

TEST(OomScoreAdjTest, ARegularContainerWithoutARequestDoesNotHelpASidecar) {
  const Pod made = pod("p", {container("a"), container("b", memory("15Gi"))}, {sidecar("s")});
  EXPECT_EQ(oom_score_adj(made, made.init_containers[0], kCapacity), 999);
}

// What the pod requests beyond its containers is shared evenly, init containers included.
TEST(OomScoreAdjTest, ThePodsOwnRequestIsSharedOut) {
  Pod made =
      pod("p", {container("a", memory("3Gi")), container("b")}, {sidecar("s"), container("i")});
  made.requests = memory("15Gi");
  // (15 - 3) / 4 = 3 Gi for each
  EXPECT_EQ(oom_score_adj(made, made.containers[0], kCapacity), 800);
  EXPECT_EQ(oom_score_adj(made, made.containers[1], kCapacity), 900);
  EXPECT_EQ(oom_score_adj(made, made.init_containers[0], kCapacity), 900);
  made.requests = amounts("1", "");
  EXPECT_EQ(oom_score_adj(made, made.containers[0], kCapacity), 900) << "no memory to share";
  made.requests = amounts("1", "0");
  EXPECT_EQ(oom_score_adj(made, made.containers[0], kCapacity), 900) << "nor one of 0";
}

TEST(OomScoreAdjTest, AStaticPodOfTheNodeIsNotGuaranteedByThatAlone) {
  Pod made = pod("p", {container("a", memory("15Gi"))});
  made.origin = PodOrigin::mirror;
  EXPECT_EQ(oom_score_adj(made, made.containers[0], kCapacity), 500);
}

}  // namespace
}  // namespace forestall::policy::oom_score_adj_test
