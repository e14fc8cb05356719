// SPDX-License-Identifier: Apache-2.0
// The eight plugins that do not read utilization; their rules are those of the folders below
// the descheduler's pkg/framework/plugins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const std::vector<std::string> kTwoNodes{node_text("n1", {.labels = R"("zone": "a")"}),
                                         node_text("n2", {.labels = R"("zone": "b")"})};

// --- RemoveDuplicates ---------------------------------------------------------------------------

std::string duplicates(const std::string& args = "{}") {
  return policy_text("RemoveDuplicates", args);
}

TEST(RemoveDuplicates, SpreadsThePodsOfAnOwnerEvenly) {
  // Five of one owner on two nodes: at most three per node.
  EXPECT_THAT(plan_for(duplicates(), kTwoNodes + pods_text("p", 5, "n1")).evicted(),
              ElementsAre("p4", "p5"));
}

TEST(RemoveDuplicates, OtherImagesAreNoDuplicates) {
  PodText other;
  other.spec = R"(, "containers": [{"name": "c", "image": "j"}])";
  const World world = plan_for(
      duplicates(),
      kTwoNodes + std::vector<std::string>{pod_text("a", "n1"), pod_text("b", "n1", other)});
  EXPECT_THAT(world.evicted(), IsEmpty());
}

// A container without an image is one more image, the empty one.
TEST(RemoveDuplicates, AMissingImageIsAnotherImage) {
  const std::string without = R"(, "containers": [{"name": "a"}, {"name": "b", "image": "i"}])";
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 2, "n1") +
                       std::vector<std::string>{pod_text("x", "n1", {.spec = without})};
  EXPECT_THAT(plan_for(policy_text("RemoveDuplicates", "{}"), cluster).evicted(),
              ElementsAre("p2"));
}

TEST(RemoveDuplicates, ExcludesOwnerKindsAndNamespaces) {
  const auto cluster = kTwoNodes + pods_text("p", 4, "n1");
  EXPECT_THAT(plan_for(duplicates("{excludeOwnerKinds: [ReplicaSet]}"), cluster).evicted(),
              IsEmpty());
  EXPECT_THAT(plan_for(duplicates("{namespaces: {exclude: [default]}}"), cluster).evicted(),
              IsEmpty());
}

TEST(RemoveDuplicates, NeedsTwoFeasibleNodes) {
  const std::vector<std::string> nodes{
      node_text("n1"), node_text("n2", {.taints = R"({"key": "k", "effect": "NoSchedule"})"})};
  EXPECT_THAT(plan_for(duplicates(), nodes + pods_text("p", 4, "n1")).evicted(), IsEmpty());
}

// Upstream's unit test "Evict pods uniformly with two replica sets": the API server accepts the
// second eviction, because the pod is only terminating.
TEST(RemoveDuplicates, EvictsAPodOnceForEachOfItsOwners) {
  PodText two;
  two.owner = "";
  two.metadata = R"(, "ownerReferences": [{"kind": "ReplicaSet", "name": "r1", "uid": "1"},
                                          {"kind": "ReplicaSet", "name": "r2", "uid": "2"}])";
  const auto cluster = kTwoNodes + std::vector<std::string>{node_text("n3")} +
                       pods_text("a", 5, "n1", two) + pods_text("b", 3, "n2", two) +
                       pods_text("c", 1, "n3", two);
  EXPECT_THAT(plan_for(duplicates(), cluster).evicted(), ElementsAre("a4", "a5", "a4", "a5"));
}

TEST(RemoveDuplicates, CountsTheNodesThatAnyOfThePodsAdmits) {
  const std::vector<std::string> nodes{
      node_text("n1", {.labels = R"("pool": "x")"}), node_text("n2", {.labels = R"("pool": "x")"}),
      node_text("n3", {.labels = R"("pool": "y")"}), node_text("n4", {.labels = R"("pool": "y")"})};
  const PodText x{.spec = R"(, "nodeSelector": {"pool": "x"})"};
  const PodText y{.spec = R"(, "nodeSelector": {"pool": "y"})"};
  // Six pods on two nodes: three each. On four nodes: two each.
  EXPECT_THAT(plan_for(duplicates(), nodes + pods_text("p", 6, "n1", x)).evicted(),
              ElementsAre("p4", "p5", "p6"));
  EXPECT_THAT(plan_for(duplicates(), nodes + pods_text("p", 5, "n1", x) +
                                         std::vector<std::string>{pod_text("q", "n1", y)})
                  .evicted(),
              ElementsAre("p3", "p4", "p5", "q"));
}

// --- RemovePodsViolatingInterPodAntiAffinity ----------------------------------------------------

PodText repelling(const std::string& key) {
  PodText text;
  text.metadata = R"(, "labels": {"app": "x"})";
  text.spec =
      R"(, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
      [{"topologyKey": ")" +
      key + R"(", "labelSelector": {"matchLabels": {"app": "x"}}}]}})";
  return text;
}

TEST(InterPodAntiAffinity, EvictsUntilNoPodIsRepelled) {
  const std::string policy = policy_text("RemovePodsViolatingInterPodAntiAffinity", "{}");
  EXPECT_THAT(
      plan_for(policy, kTwoNodes + pods_text("p", 3, "n1", repelling("hostname"))).evicted(),
      ElementsAre("p1", "p2"));
  // In one zone, on two nodes.
  const std::vector<std::string> zone{
      node_text("n1", {.labels = R"("zone": "a")"}), node_text("n2", {.labels = R"("zone": "a")"}),
      pod_text("p", "n1", repelling("zone")), pod_text("q", "n2", repelling("zone"))};
  EXPECT_THAT(plan_for(policy, zone).evicted(), ElementsAre("p"));
  const auto apart = kTwoNodes + std::vector<std::string>{pod_text("p", "n1", repelling("zone")),
                                                          pod_text("q", "n2", repelling("zone"))};
  EXPECT_THAT(plan_for(policy, apart).evicted(), IsEmpty());
}

TEST(InterPodAntiAffinity, PodsOfTheSameNameDoNotRepel) {
  PodText other = repelling("zone");
  other.space = "b";
  const auto cluster = kTwoNodes + std::vector<std::string>{pod_text("p", "n1", repelling("zone")),
                                                            pod_text("p", "n1", other)};
  EXPECT_THAT(
      plan_for(policy_text("RemovePodsViolatingInterPodAntiAffinity", "{}"), cluster).evicted(),
      IsEmpty());
}

TEST(InterPodAntiAffinity, FindsPodsOfTheNamespacesAndSelectorsOfATerm) {
  const auto term = [](const std::string& members) {
    PodText text;
    text.spec = R"(, "affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", )" +
                members + "}]}}";
    return text;
  };
  const std::string policy = policy_text("RemovePodsViolatingInterPodAntiAffinity", "{}");
  const auto evicted = [&](const std::string& members) {
    const std::vector<std::string> cluster{
        node_text("n1", {.labels = R"("zone": "a")"}),
        node_text("n2", {.labels = R"("zone": "a")"}), pod_text("p", "n1", term(members)),
        pod_text("q", "n2", {.space = "b", .metadata = R"(, "labels": {"app": "x"})"})};
    return plan_for(policy, cluster).evicted();
  };
  EXPECT_THAT(evicted(R"("namespaces": ["b"], "labelSelector": {"matchLabels": {"app": "x"}})"),
              ElementsAre("p"));
  EXPECT_THAT(evicted(R"("namespaces": ["b"], "labelSelector": {"matchExpressions": [
                       {"key": "app", "operator": "In", "values": ["y", "x", "x"]}]})"),
              ElementsAre("p"));
  EXPECT_THAT(evicted(R"("namespaces": ["b"], "labelSelector": {"matchExpressions": [
                       {"key": "app", "operator": "Exists"}]})"),
              ElementsAre("p"));
  EXPECT_THAT(evicted(R"("namespaces": ["c"], "labelSelector": {})"), IsEmpty());
  EXPECT_THAT(evicted(R"("labelSelector": {"matchLabels": {"app": "x"}})"), IsEmpty());
}

// --- RemovePodsViolatingNodeAffinity ------------------------------------------------------------

PodText required_zone(const std::string& zone) {
  PodText text;
  text.spec = R"(, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
      {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In",
        "values": [")" +
              zone + R"("]}]}]}}})";
  return text;
}

PodText preferred_zone(const std::string& zone) {
  PodText text;
  text.spec = R"(, "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
      [{"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "In",
        "values": [")" +
              zone + R"("]}]}}]}})";
  return text;
}

TEST(NodeAffinity, EvictsPodsThatAnotherNodeWouldTake) {
  const std::string required =
      policy_text("RemovePodsViolatingNodeAffinity",
                  "{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}");
  const std::string preferred =
      policy_text("RemovePodsViolatingNodeAffinity",
                  "{nodeAffinityType: [preferredDuringSchedulingIgnoredDuringExecution]}");
  const auto with = [](const PodText& pod) {
    return kTwoNodes + std::vector<std::string>{pod_text("p", "n1", pod)};
  };
  EXPECT_THAT(plan_for(required, with(required_zone("b"))).evicted(), ElementsAre("p"));
  EXPECT_THAT(plan_for(required, with(required_zone("a"))).evicted(), IsEmpty());
  EXPECT_THAT(plan_for(required, with(required_zone("c"))).evicted(), IsEmpty());
  EXPECT_THAT(plan_for(required, with(preferred_zone("b"))).evicted(), IsEmpty());
  EXPECT_THAT(plan_for(preferred, with(preferred_zone("b"))).evicted(), ElementsAre("p"));
  EXPECT_THAT(plan_for(preferred, with(preferred_zone("a"))).evicted(), IsEmpty());
}

TEST(NodeAffinity, ThePreferredNodeNeedNotFit) {
  const std::vector<std::string> cluster{node_text("n1", {.labels = R"("zone": "a")"}),
                                         node_text("n2", {.cpu = "1m", .labels = R"("zone": "b")"}),
                                         pod_text("p", "n1", preferred_zone("b"))};
  EXPECT_THAT(plan_for(policy_text("RemovePodsViolatingNodeAffinity",
                                   "{nodeAffinityType: "
                                   "[preferredDuringSchedulingIgnoredDuringExecution]}"),
                       cluster)
                  .evicted(),
              ElementsAre("p"));
}

// --- RemovePodsViolatingNodeTaints --------------------------------------------------------------

struct TaintRow {
  const char* rule;
  const char* args;
  const char* taint;
  std::size_t evicted;
};

TEST(NodeTaints, EvictsPodsThatDoNotTolerateATaint) {
  const char* const hard = R"({"key": "k", "value": "v", "effect": "NoSchedule"})";
  const char* const soft = R"({"key": "k", "value": "v", "effect": "PreferNoSchedule"})";
  const char* const execute = R"({"key": "k", "value": "v", "effect": "NoExecute"})";
  const TaintRow rows[] = {
      {"NoSchedule", "{}", hard, 1},
      {"PreferNoSchedule", "{}", soft, 0},
      {"PreferNoSchedule, included", "{includePreferNoSchedule: true}", soft, 1},
      {"NoExecute never counts", "{includePreferNoSchedule: true}", execute, 0},
      {"excluded by key", "{excludedTaints: [k]}", hard, 0},
      {"excluded by key and value", "{excludedTaints: [k=v]}", hard, 0},
      {"another value", "{excludedTaints: [k=w]}", hard, 1},
      {"included by key", "{includedTaints: [k]}", hard, 1},
      {"not included", "{includedTaints: [other]}", hard, 0},
      {"an empty list includes none", "{includedTaints: []}", hard, 0},
      {"null is no list", "{includedTaints: null}", hard, 1},
      {"namespaces", "{namespaces: {include: [other]}}", hard, 0},
  };
  for (const TaintRow& row : rows) {
    SCOPED_TRACE(row.rule);
    const World world =
        plan_for(policy_text("RemovePodsViolatingNodeTaints", row.args),
                 {node_text("n1", {.taints = row.taint}), node_text("n2"), pod_text("p", "n1")});
    EXPECT_THAT(world.evicted(), SizeIs(row.evicted));
  }
}

TEST(NodeTaints, PodsThatHaveEndedStay) {
  const World world =
      plan_for(policy_text("RemovePodsViolatingNodeTaints", "{}"),
               {node_text("n1", {.taints = R"({"key": "k", "effect": "NoSchedule"})"}),
                node_text("n2"), pod_text("done", "n1", {.phase = "Succeeded"}),
                pod_text("failed", "n1", {.phase = "Failed"}),
                pod_text("waits", "n1", {.phase = "Pending"})});
  EXPECT_THAT(world.evicted(), ElementsAre("waits"));
}

// --- RemovePodsViolatingTopologySpreadConstraint ------------------------------------------------

PodText spread(const std::string& more = "", int skew = 1) {
  PodText text;
  text.metadata = R"(, "labels": {"app": "x"})";
  text.spec = R"(, "topologySpreadConstraints": [{"maxSkew": )" + std::to_string(skew) +
              R"(, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                  "labelSelector": {"matchLabels": {"app": "x"}})" +
              more + "}]";
  return text;
}

std::string topology(const std::string& args = "{}", const std::string& evictor = "{}") {
  return policy_text("RemovePodsViolatingTopologySpreadConstraint", args, evictor);
}

TEST(TopologySpread, MovesAsFewPodsAsTheSkewAllows) {
  EXPECT_THAT(plan_for(topology(), kTwoNodes + pods_text("p", 4, "n1", spread())).evicted(),
              SizeIs(2));
  EXPECT_THAT(plan_for(topology(), kTwoNodes + pods_text("p", 1, "n1", spread())).evicted(),
              IsEmpty());
  EXPECT_THAT(plan_for(topology(), kTwoNodes + pods_text("p", 4, "n1", spread("", 3))).evicted(),
              SizeIs(1));
}

TEST(TopologySpread, SoftConstraintsMustBeEnabled) {
  PodText soft = spread();
  soft.spec.replace(soft.spec.find("DoNotSchedule"), 13, "ScheduleAnyway");
  const auto cluster = kTwoNodes + pods_text("p", 4, "n1", soft);
  EXPECT_THAT(plan_for(topology(), cluster).evicted(), IsEmpty());
  EXPECT_THAT(plan_for(topology("{constraints: [ScheduleAnyway]}"), cluster).evicted(), SizeIs(2));
}

TEST(TopologySpread, OnlyPodsThatFitBelowTheAverageAreEvicted) {
  const auto cluster =
      std::vector<std::string>{node_text("n1", {.labels = R"("zone": "a")"}),
                               node_text("n2", {.cpu = "10m", .labels = R"("zone": "b")"})} +
      pods_text("p", 4, "n1", spread());
  EXPECT_THAT(plan_for(topology(), cluster).evicted(), IsEmpty());
  EXPECT_THAT(plan_for(topology("{topologyBalanceNodeFit: false}"), cluster).evicted(), SizeIs(2));
}

TEST(TopologySpread, CountsOnlyEvictablePods) {
  PodText bare = spread();
  bare.owner = "";
  const auto cluster =
      kTwoNodes + pods_text("p", 4, "n1", bare) + pods_text("q", 1, "n1", spread());
  EXPECT_THAT(plan_for(topology(), cluster).evicted(), IsEmpty());
}

TEST(TopologySpread, HonorsTheInclusionPoliciesOfNodes) {
  const std::vector<std::string> nodes{
      node_text("n1", {.labels = R"("zone": "a")"}),
      node_text("n2",
                {.labels = R"("zone": "b")", .taints = R"({"key": "k", "effect": "NoSchedule"})"})};
  // The tainted zone does not count: there is nothing to balance.
  EXPECT_THAT(plan_for(topology("{topologyBalanceNodeFit: false}"),
                       nodes + pods_text("p", 4, "n1", spread(R"(, "nodeTaintsPolicy": "Honor")")))
                  .evicted(),
              IsEmpty());
  EXPECT_THAT(plan_for(topology("{topologyBalanceNodeFit: false}"),
                       nodes + pods_text("p", 4, "n1", spread()))
                  .evicted(),
              SizeIs(2));
}

// Its comparison is inverted: the pods at the end of the list, which it takes, have the highest
// priority.
// Each app has a constraint of its own; they share the domains, and each is balanced by itself.
TEST(TopologySpread, BalancesEachConstraintByItself) {
  const auto of_app = [](const std::string& app, const std::string& policy) {
    PodText text;
    text.metadata = R"(, "labels": {"app": ")" + app + R"("})";
    text.spec = R"(, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "host",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": ")" +
                app + "\"}}" + policy + "}]";
    return text;
  };
  const std::vector<std::string> nodes{
      node_text("n1", {.labels = R"("host": "1")"}), node_text("n2", {.labels = R"("host": "2")"}),
      node_text("n3",
                {.labels = R"("host": "3")", .taints = R"({"key": "k", "effect": "NoSchedule"})"})};
  const std::string policy = policy_text("RemovePodsViolatingTopologySpreadConstraint", "{}");
  // a: 4, 0, 0 and a tainted node as the third domain; b: 1, 1, 0.
  EXPECT_THAT(plan_for(policy, nodes + pods_text("a", 4, "n1", of_app("a", "")) +
                                   pods_text("b", 1, "n1", of_app("b", "")) +
                                   pods_text("c", 1, "n2", of_app("b", "")))
                  .evicted(),
              ElementsAre("a2", "a3", "a4"));
  // The constraint does not include n3, which counts only because it has pods: 4, 0, 1.
  const std::string honor = R"(, "nodeTaintsPolicy": "Honor")";
  EXPECT_THAT(plan_for(policy, nodes + pods_text("a", 4, "n1", of_app("a", honor)) +
                                   pods_text("z", 1, "n3", of_app("a", honor)))
                  .evicted(),
              ElementsAre("a3", "a4"));
}

TEST(TopologySpread, TakesPodsOfHighPriorityFirst) {
  PodText urgent = spread();
  urgent.priority = "5";
  PodText plain = spread();
  plain.priority = "1";
  const auto cluster =
      kTwoNodes + std::vector<std::string>{pod_text("a", "n1", urgent), pod_text("b", "n1", plain),
                                           pod_text("c", "n1", plain)};
  EXPECT_THAT(plan_for(topology(), cluster).evicted(), ElementsAre("a"));
}

// --- RemovePodsHavingTooManyRestarts ------------------------------------------------------------

PodText restarted(int times, const std::string& state = R"({"running": {}})") {
  return {.status = R"(, "containerStatuses": [{"restartCount": )" + std::to_string(times) +
                    R"(, "state": )" + state + "}]" +
                    R"(, "initContainerStatuses": [{"restartCount": 10}])"};
}

TEST(TooManyRestarts, EvictsTheMostRestartedFirst) {
  const auto cluster = kTwoNodes + std::vector<std::string>{pod_text("few", "n1", restarted(4)),
                                                            pod_text("many", "n1", restarted(9)),
                                                            pod_text("some", "n1", restarted(5))};
  const auto policy = [](const std::string& args) {
    return policy_text("RemovePodsHavingTooManyRestarts", args);
  };
  EXPECT_THAT(plan_for(policy("{podRestartThreshold: 5}"), cluster).evicted(),
              ElementsAre("many", "some"));
  EXPECT_THAT(plan_for(policy("{podRestartThreshold: 14, includingInitContainers: true}"), cluster)
                  .evicted(),
              ElementsAre("many", "some", "few"));
}

TEST(TooManyRestarts, ComparesPhaseAndWaitingReasons) {
  const auto cluster =
      kTwoNodes +
      std::vector<std::string>{
          pod_text("a", "n1", restarted(9, R"({"waiting": {"reason": "CrashLoopBackOff"}})")),
          pod_text("b", "n1", restarted(8))};
  EXPECT_THAT(plan_for(policy_text("RemovePodsHavingTooManyRestarts",
                                   "{podRestartThreshold: 5, states: [CrashLoopBackOff]}"),
                       cluster)
                  .evicted(),
              ElementsAre("a"));
  EXPECT_THAT(plan_for(policy_text("RemovePodsHavingTooManyRestarts",
                                   "{podRestartThreshold: 5, states: [Running]}"),
                       cluster)
                  .evicted(),
              ElementsAre("a", "b"));
}

// --- PodLifeTime and RemoveFailedPods -----------------------------------------------------------

std::string created(const std::string& time) {
  return R"(, "creationTimestamp": "2026-01-01T)" + time + R"(Z")";
}

struct LifeRow {
  const char* rule;
  const char* args;
  PodText pod;
  bool evicted;
};

TEST(PodLifeTime, CategoriesMustAllHold) {
  const std::string old = created("11:00:00");
  const char* const waiting =
      R"(, "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}])";
  const char* const exited =
      R"(, "containerStatuses": [{"state": {"terminated": {"reason": "Error", "exitCode": 3}}}])";
  const char* const done =
      R"(, "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted",
                           "lastTransitionTime": "2026-01-01T11:50:00Z"}])";
  const LifeRow rows[] = {
      {"older", "{maxPodLifeTimeSeconds: 3599}", {.metadata = old}, true},
      {"exactly as old", "{maxPodLifeTimeSeconds: 3600}", {.metadata = old}, false},
      {"in the future", "{maxPodLifeTimeSeconds: 0}", {.metadata = created("13:00:00")}, false},
      {"without a time", "{maxPodLifeTimeSeconds: 3600}", {}, true},
      {"phase", "{states: [Succeeded]}", {.phase = "Succeeded"}, true},
      {"other phase", "{states: [Succeeded]}", {}, false},
      {"reason of the pod", "{states: [NodeLost]}", {.status = R"(, "reason": "NodeLost")"}, true},
      {"waiting", "{states: [ImagePullBackOff]}", {.status = waiting}, true},
      {"terminated", "{states: [Error]}", {.status = exited}, true},
      {"exit code", "{exitCodes: [1, 3]}", {.status = exited}, true},
      {"other exit code", "{exitCodes: [1]}", {.status = exited}, false},
      {"condition",
       "{conditions: [{reason: PodCompleted, status: 'False'}]}",
       {.status = done},
       true},
      {"one field differs",
       "{conditions: [{reason: PodCompleted, status: 'True'}]}",
       {.status = done},
       false},
      {"long enough",
       "{conditions: [{type: Ready, minTimeSinceLastTransitionSeconds: 600}]}",
       {.status = done},
       true},
      {"not long enough",
       "{conditions: [{type: Ready, minTimeSinceLastTransitionSeconds: 601}]}",
       {.status = done},
       false},
      {"owner kinds",
       "{maxPodLifeTimeSeconds: 0, ownerKinds: {include: [Job]}}",
       {.metadata = old},
       false},
      {"owner kinds excluded",
       "{maxPodLifeTimeSeconds: 0, ownerKinds: {exclude: [ReplicaSet]}}",
       {.metadata = old},
       false},
      {"two categories",
       "{maxPodLifeTimeSeconds: 4000, states: [Running]}",
       {.metadata = old},
       false},
  };
  for (const LifeRow& row : rows) {
    SCOPED_TRACE(row.rule);
    const World world =
        plan_for(policy_text("PodLifeTime", row.args),
                 kTwoNodes + std::vector<std::string>{pod_text("p", "n1", row.pod)});
    EXPECT_THAT(world.evicted(), SizeIs(row.evicted ? 1 : 0));
  }
}

TEST(PodLifeTime, EvictsTheOldestOfTheClusterFirst) {
  const auto cluster =
      kTwoNodes + std::vector<std::string>{pod_text("a", "n1", {.metadata = created("10:00:00")}),
                                           pod_text("b", "n2", {.metadata = created("09:00:00")}),
                                           pod_text("c", "n1", {.metadata = created("08:00:00")})};
  EXPECT_THAT(
      plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 60}"), cluster).evicted(),
      ElementsAre("c", "b", "a"));
}

TEST(RemoveFailedPods, EvictsFailedPodsOfAnHourByDefault) {
  const auto cluster =
      kTwoNodes + std::vector<std::string>{
                      pod_text("old", "n1", {.metadata = created("10:00:00"), .phase = "Failed"}),
                      pod_text("new", "n1", {.metadata = created("11:30:00"), .phase = "Failed"}),
                      pod_text("runs", "n1", {.metadata = created("10:00:00")})};
  EXPECT_THAT(plan_for(policy_text("RemoveFailedPods", "{}"), cluster).evicted(),
              ElementsAre("old"));
  EXPECT_THAT(
      plan_for(policy_text("RemoveFailedPods", "{minPodLifetimeSeconds: 60}"), cluster).evicted(),
      UnorderedElementsAre("old", "new"));
  EXPECT_THAT(plan_for(policy_text("RemoveFailedPods", "{reasons: [OutOfcpu]}"), cluster).evicted(),
              IsEmpty());
}

// The descheduler's plugin runs PodLifeTime with its arguments (failedpods.go, toLifeTimeArgs()).
TEST(RemoveFailedPods, ItsAgeAndReasonsAreThoseOfPodLifeTime) {
  const auto cluster =
      kTwoNodes + std::vector<std::string>{
                      pod_text("less", "n1", {.metadata = created("11:00:00"), .phase = "Failed"}),
                      pod_text("more", "n1", {.metadata = created("10:59:59"), .phase = "Failed"})};
  const auto evicted = [&](const std::string& args) {
    return plan_for(policy_text("RemoveFailedPods", args), cluster).evicted();
  };
  EXPECT_THAT(evicted("{minPodLifetimeSeconds: 3600}"), ElementsAre("more"));
  EXPECT_THAT(evicted("{reasons: [Failed]}"), ElementsAre("more"));
  EXPECT_THAT(evicted("{reasons: [Shutdown]}"), IsEmpty());
}

}  // namespace
}  // namespace forestall::rebalance::test
