// SPDX-License-Identifier: Apache-2.0
// nodeFit: the predicates of the descheduler's pkg/descheduler/node NodeFit(), in their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

struct FitRow {
  const char* rule;
  NodeText node;
  PodText pod;
  const char* reason;  // empty: the pod fits
  std::vector<std::string> others = {};
};

const char* const kNoSchedule = R"({"key": "k", "value": "v", "effect": "NoSchedule"})";
const char* const kPrefer = R"({"key": "k", "value": "v", "effect": "PreferNoSchedule"})";
const char* const kNoExecute = R"({"key": "k", "effect": "NoExecute"})";
const char* const kWrongNode = "pod node selector does not match the node label";
const char* const kTainted = "pod does not tolerate taints on the node";
const char* const kRepelled = "pod matches inter-pod anti-affinity rule of other pod on node";

std::string affinity(const std::string& terms) {
  return R"(, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
             {"nodeSelectorTerms": [)" +
         terms + "]}}}";
}

std::string expression(const std::string& text) {
  return affinity(R"({"matchExpressions": [)" + text + "]}");
}

std::string tolerations(const std::string& items) {
  return R"(, "tolerations": [)" + items + "]";
}

std::string anti_affinity(const std::string& rest) {
  return R"(, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
             [{"topologyKey": "zone")" +
         rest + "}]}}";
}

void expect_fit(const FitRow& row) {
  SCOPED_TRACE(row.rule);
  std::vector<std::string> objects{node_text("here"), node_text("there", row.node),
                                   pod_text("x", "here", row.pod)};
  const World world =
      plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 0}"), objects + row.others);
  ASSERT_NE(world.find("x"), nullptr);
  for (const NodeFit& fit : world.find("x")->fits) {
    if (world.snapshot.nodes[fit.node].name != "there") continue;
    EXPECT_EQ(fit.reason, row.reason);
  }
}

TEST(NodeFit, ChecksCordonLabelsAndTaints) {
  const std::vector<FitRow> rows{
      {"an empty node", {}, {}, ""},
      {"1: cordoned, before all others",
       {.taints = kNoSchedule, .cordoned = true},
       {},
       "node is not schedulable"},
      {"2: nodeSelector", {}, {.spec = R"(, "nodeSelector": {"a": "1"})"}, kWrongNode},
      {"2: nodeSelector matches",
       {.labels = R"("a": "1")"},
       {.spec = R"(, "nodeSelector": {"a": "1"})"},
       ""},
      {"2: In",
       {.labels = R"("a": "1")"},
       {.spec = expression(R"({"key": "a", "operator": "In", "values": ["2", "1"]})")},
       ""},
      {"2: NotIn holds for a missing label",
       {},
       {.spec = expression(R"({"key": "a", "operator": "NotIn", "values": ["1"]})")},
       ""},
      {"2: Gt compares numbers",
       {.labels = R"("a": "10")"},
       {.spec = expression(R"({"key": "a", "operator": "Gt", "values": ["9"]})")},
       ""},
      {"2: Lt",
       {.labels = R"("a": "10")"},
       {.spec = expression(R"({"key": "a", "operator": "Lt", "values": ["9"]})")},
       kWrongNode},
      {"2: DoesNotExist",
       {.labels = R"("a": "10")"},
       {.spec = expression(R"({"key": "a", "operator": "DoesNotExist"})")},
       kWrongNode},
      {"2: one of several terms",
       {.labels = R"("a": "1")"},
       {.spec = affinity(R"({"matchExpressions": [{"key": "b", "operator": "Exists"}]},
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]})")},
       ""},
      {"2: an empty term matches nothing", {}, {.spec = affinity("{}")}, kWrongNode},
      {"2: no term matches nothing", {}, {.spec = affinity("")}, kWrongNode},
      {"2: matchFields",
       {},
       {.spec = affinity(R"({"matchFields": [{"key": "metadata.name", "operator": "In",
                             "values": ["there"]}]})")},
       ""},
      {"3: NoSchedule", {.taints = kNoSchedule}, {}, kTainted},
      {"3: NoExecute", {.taints = kNoExecute}, {}, kTainted},
      {"3: PreferNoSchedule is ignored", {.taints = kPrefer}, {}, ""},
      {"3: tolerated by value",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"key": "k", "operator": "Equal", "value": "v"})")},
       ""},
      {"3: another value",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"key": "k", "value": "w"})")},
       kTainted},
      {"3: another effect",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"key": "k", "operator": "Exists", "effect": "NoExecute"})")},
       kTainted},
      {"3: a wildcard",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"operator": "Exists"})")},
       ""},
  };
  for (const FitRow& row : rows) expect_fit(row);
}

TEST(NodeFit, ChecksAntiAffinityOfThePodOnThatNodeOnly) {
  const PodText web{.metadata = R"(, "labels": {"app": "web"})"};
  const NodeText zoned{.labels = R"("zone": "a")"};
  const std::string selects = R"(, "labelSelector": {"matchLabels": {"app": "web"}})";
  const auto other = [&](PodText text) {
    text.metadata = web.metadata;
    return std::vector<std::string>{pod_text("other", "there", text)};
  };
  const std::vector<FitRow> rows{
      {"4: a matching pod", zoned, {.spec = anti_affinity(selects)}, kRepelled, other({})},
      {"4: the node has not the topology key", {}, {.spec = anti_affinity(selects)}, "", other({})},
      {"4: a finished pod",
       zoned,
       {.spec = anti_affinity(selects)},
       "",
       other({.phase = "Succeeded"})},
      {"4: another namespace", zoned, {.spec = anti_affinity(selects)}, "", other({.space = "b"})},
      {"4: a listed namespace",
       zoned,
       {.spec = anti_affinity(selects + R"(, "namespaces": ["b"])")},
       kRepelled,
       other({.space = "b"})},
      {"4: no selector selects nothing", zoned, {.spec = anti_affinity("")}, "", other({})},
      {"4: an empty selector selects all",
       zoned,
       {.spec = anti_affinity(R"(, "labelSelector": {})")},
       kRepelled,
       other({})},
  };
  for (const FitRow& row : rows) expect_fit(row);
}

TEST(NodeFit, ChecksResourcesInThousandths) {
  const std::vector<FitRow> rows{
      {"5: exactly the room", {.cpu = "100m"}, {.cpu = "100m"}, ""},
      {"5: cpu", {.cpu = "100m"}, {.cpu = "101m"}, "insufficient cpu"},
      {"5: memory", {.memory = "1Ki"}, {.memory = "1025"}, "insufficient memory"},
      {"5: taken by a live pod",
       {.cpu = "150m"},
       {},
       "insufficient cpu",
       {pod_text("o", "there", {.cpu = "51m"})}},
      {"5: a finished pod takes nothing",
       {.cpu = "150m"},
       {},
       "",
       {pod_text("o", "there", {.cpu = "51m", .phase = "Failed"})}},
      {"5: number of pods",
       {.pods = "1"},
       {},
       "insufficient pods",
       {pod_text("o", "there", {.cpu = "0"})}},
      {"5: an extended resource that the node has not",
       {},
       {.spec = R"(, "overhead": {"x.com/gpu": "1"})"},
       "insufficient x.com/gpu"},
      {"5: the overhead counts",
       {.cpu = "149m"},
       {.spec = R"(, "overhead": {"cpu": "50m"})"},
       "insufficient cpu"},
  };
  for (const FitRow& row : rows) expect_fit(row);
}

TEST(NodeFit, DoesNotCheckResourcesOnThePodsOwnNode) {
  const World world = plan_for(
      policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 0}"),
      {node_text("here", {.cpu = "1m", .pods = "0"}), node_text("there"), pod_text("x", "here")});
  ASSERT_NE(world.find("x"), nullptr);
  EXPECT_EQ(world.find("x")->fits.at(0).reason, "");
}

}  // namespace
}  // namespace forestall::rebalance::test
