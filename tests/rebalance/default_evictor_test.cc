// SPDX-License-Identifier: Apache-2.0
// DefaultEvictor. Each row names its rule by the number of the check in Filter(), in the order of
// the descheduler's pkg/framework/plugins/defaultevictor: annotation, policy, mirror, static,
// terminating, critical, bare, storage, DaemonSet, PVC, PDB, claims, labels, replicas, age.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// PodLifeTime for pods of any age: every pod that passes the filters is evicted.
std::string any_pod(const std::string& evictor) {
  return policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 0}", evictor);
}

struct FilterRow {
  const char* rule;
  const char* evictor;
  PodText pod;
  Reasons reasons;
};

PodText with(PodText text) {
  return text;
}

const char* const kLocal = R"(, "volumes": [{"name": "v", "emptyDir": {}}])";
const char* const kHost = R"(, "volumes": [{"name": "v", "hostPath": {"path": "/"}}])";
const char* const kClaim =
    R"(, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "fast-claim"}}])";
const char* const kNoClass =
    R"(, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "bare-claim"}}])";
const char* const kGone =
    R"(, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}])";
const char* const kAnnotated =
    R"(, "deletionTimestamp": "2026-01-01T00:00:00Z",
       "annotations": {"descheduler.alpha.kubernetes.io/evict": "false"})";
const char* const kPrefersNo =
    R"(, "annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""})";
const char* const kMirrorPod =
    R"(, "annotations": {"kubernetes.io/config.mirror": "x",
                         "kubernetes.io/config.source": "file"})";
const char* const kApiPod = R"(, "annotations": {"kubernetes.io/config.source": "api"})";
const char* const kTerminating = R"(, "deletionTimestamp": "2026-01-01T00:00:00Z")";
const char* const kNew = R"(, "startTime": "2026-01-01T11:59:30Z")";
const char* const kOld = R"(, "startTime": "2026-01-01T11:58:00Z")";

const std::vector<FilterRow> kFilterRows = {
    {"an ordinary pod", "{}", {}, {}},
    {"1: the evict annotation outweighs all others, whatever its value",
     "{}",
     with({.owner = "DaemonSet/d", .priority = "2000000000", .metadata = kAnnotated}),
     {}},
    {"2: prefer-no-eviction without a policy", "{}", with({.metadata = kPrefersNo}), {}},
    {"2: prefer-no-eviction, mandatory",
     "{noEvictionPolicy: Mandatory}",
     with({.metadata = kPrefersNo}),
     {"pod has the prefer-no-eviction annotation, and noEvictionPolicy is Mandatory"}},
    {"3, 4: all reasons are collected",
     "{}",
     with({.metadata = kMirrorPod}),
     {"pod is a mirror pod", "pod is a static pod"}},
    {"4: source api is no static pod", "{}", with({.metadata = kApiPod}), {}},
    {"5: terminating", "{}", with({.metadata = kTerminating}), {"pod is terminating"}},
    {"6: system critical",
     "{}",
     with({.priority = "2000000000"}),
     {"pod has system critical priority and is protected against eviction",
      "pod has higher priority than specified priority class threshold"}},
    {"6: equal to the threshold is protected",
     "{priorityThreshold: {value: 100}}",
     with({.priority = "100"}),
     {"pod has higher priority than specified priority class threshold"}},
    {"6: below the threshold", "{priorityThreshold: {value: 100}}", with({.priority = "99"}), {}},
    {"6: by class",
     "{priorityThreshold: {name: high}}",
     with({.priority = "5000"}),
     {"pod has higher priority than specified priority class threshold"}},
    {"6: no threshold without this protection",
     "{evictSystemCriticalPods: true, priorityThreshold: {value: 100}}",
     with({.priority = "2000000000"}),
     {}},
    {"7: without owner", "{}", with({.owner = ""}), {"pod does not have any ownerRefs"}},
    {"7: failed without owner",
     "{evictFailedBarePods: true}",
     with({.owner = "", .phase = "Failed"}),
     {}},
    {"7: running without owner",
     "{evictFailedBarePods: true}",
     with({.owner = ""}),
     {"pod does not have any ownerRefs and is not in failed phase"}},
    {"8: emptyDir",
     "{}",
     with({.spec = kLocal}),
     {"pod has local storage and is protected against eviction"}},
    {"8: hostPath",
     "{}",
     with({.spec = kHost}),
     {"pod has local storage and is protected against eviction"}},
    {"8: allowed", "{evictLocalStoragePods: true}", with({.spec = kLocal}), {}},
    {"8: allowed by podProtections",
     "{podProtections: {defaultDisabled: [PodsWithLocalStorage]}}",
     with({.spec = kLocal}),
     {}},
    {"9: DaemonSet",
     "{}",
     with({.owner = "DaemonSet/d"}),
     {"daemonset pods are protected against eviction"}},
    {"9: allowed", "{evictDaemonSetPods: true}", with({.owner = "DaemonSet/d"}), {}},
    {"10: claims do not matter by default", "{}", with({.spec = kClaim}), {}},
    {"10: any claim",
     "{ignorePvcPods: true}",
     with({.spec = kClaim}),
     {"pod with PVC is protected against eviction"}},
    {"10: a listed class",
     "{podProtections: {extraEnabled: [PodsWithPVC], config: {PodsWithPVC: "
     "{protectedStorageClasses: [{name: fast}]}}}}",
     with({.spec = kClaim}),
     {"pod using protected storage class \"fast\""}},
    {"10: another class",
     "{podProtections: {extraEnabled: [PodsWithPVC], config: {PodsWithPVC: "
     "{protectedStorageClasses: [{name: slow}]}}}}",
     with({.spec = kClaim}),
     {}},
    {"10: a claim without class",
     "{podProtections: {extraEnabled: [PodsWithPVC], config: {PodsWithPVC: "
     "{protectedStorageClasses: [{name: slow}]}}}}",
     with({.spec = kNoClass}),
     {"failed to resolve storage class for pod \"default\"/\"bare-claim\""}},
    {"10: a missing claim",
     "{podProtections: {extraEnabled: [PodsWithPVC], config: {PodsWithPVC: "
     "{protectedStorageClasses: [{name: slow}]}}}}",
     with({.spec = kGone}),
     {"failed to get persistent volume claim \"default\"/\"gone\": persistentvolumeclaim "
      "\"gone\" not found"}},
    {"11: no budget",
     "{ignorePodsWithoutPDB: true}",
     {},
     {"pod does not have a PodDisruptionBudget and is protected against eviction"}},
    {"11: a budget selects it",
     "{ignorePodsWithoutPDB: true}",
     with({.metadata = R"(, "labels": {"app": "guarded"})"}),
     {}},
    {"12: resource claims",
     "{podProtections: {extraEnabled: [PodsWithResourceClaims]}}",
     with({.spec = R"(, "resourceClaims": [{"name": "gpu"}])"}),
     {"pod has ResourceClaims and descheduler is configured to protect ResourceClaims pods"}},
    {"13: labelSelector",
     "{labelSelector: {matchLabels: {app: web}}}",
     {},
     {"pod labels do not match the labelSelector filter in the policy parameter"}},
    {"13: an empty labelSelector", "{labelSelector: {}}", {}, {}},
    {"14: minReplicas counts pods",
     "{minReplicas: 3}",
     {},
     {"owner has 1 replicas which is less than minReplicas of 3"}},
    {"14: one replica is no limit", "{minReplicas: 1}", {}, {}},
    {"15: no start time",
     "{minPodAge: 1m}",
     {},
     {"pod age is not older than MinPodAge: 1m0s seconds"}},
    {"15: too young",
     "{minPodAge: 1m}",
     with({.status = kNew}),
     {"pod age is not older than MinPodAge: 1m0s seconds"}},
    {"15: old enough", "{minPodAge: 1m}", with({.status = kOld}), {}},
};

TEST(DefaultEvictor, FiltersAsTheDeschedulerDoes) {
  for (const FilterRow& row : kFilterRows) {
    SCOPED_TRACE(row.rule);
    const World world = plan_for(
        any_pod(row.evictor),
        {node_text("n1"), node_text("n2"), pod_text("x", "n1", row.pod),
         R"({"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
             "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
             "status": {"disruptionsAllowed": 1}})",
         R"({"kind": "PersistentVolumeClaim", "metadata": {"name": "fast-claim",
             "namespace": "default"}, "spec": {"storageClassName": "fast"}})",
         R"({"kind": "PersistentVolumeClaim", "metadata": {"name": "bare-claim",
             "namespace": "default"}, "spec": {}})",
         R"({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5000})"});
    ASSERT_NE(world.find("x"), nullptr);
    EXPECT_EQ(world.find("x")->filter, row.reasons);
    EXPECT_EQ(world.evicted().size(), row.reasons.empty() ? 1U : 0U);
  }
}

TEST(DefaultEvictor, CountsPodsOfAnyNamespaceAndPhaseForMinReplicas) {
  const World world =
      plan_for(any_pod("{minReplicas: 3}"), {node_text("n1"), node_text("n2"), pod_text("a", "n1"),
                                             pod_text("b", "n2", {.space = "other"}),
                                             pod_text("c", "", {.phase = "Succeeded"})});
  EXPECT_THAT(world.evicted(), ElementsAre("a", "b"));
}

TEST(DefaultEvictor, CountsAPodOnceForMinReplicas) {
  const PodText twice{.owner = "",
                      .metadata = R"(, "ownerReferences": [{"kind": "A", "name": "a", "uid": "1"},
                                      {"kind": "A", "name": "a", "uid": "1"}])"};
  const PodText once{
      .owner = "", .metadata = R"(, "ownerReferences": [{"kind": "A", "name": "a", "uid": "1"}])"};
  const World world = plan_for(
      any_pod("{minReplicas: 3}"),
      {node_text("n1"), node_text("n2"), pod_text("a", "n1", once), pod_text("b", "", twice)});
  EXPECT_THAT(world.evicted(), IsEmpty());
}

TEST(DefaultEvictor, SeveralOwnersAreNotCounted) {
  const PodText two{.owner = "",
                    .metadata = R"(, "ownerReferences": [{"kind": "A", "name": "a", "uid": "1"},
                                    {"kind": "B", "name": "b", "uid": "2"}])"};
  const World world = plan_for(any_pod("{minReplicas: 5}"),
                               {node_text("n1"), node_text("n2"), pod_text("a", "n1", two)});
  EXPECT_THAT(world.evicted(), ElementsAre("a"));
}

TEST(DefaultEvictor, TheNamespaceMustMatchRightBeforeTheEviction) {
  const std::string evictor = "{namespaceLabelSelector: {matchLabels: {team: web}}}";
  const char* const reason =
      "pod namespace do not match the namespaceLabelSelector filter in the policy parameter";
  const World world =
      plan_for(any_pod(evictor),
               {node_text("n1"), node_text("n2"), pod_text("in", "n1", {.space = "a"}),
                pod_text("out", "n1", {.space = "b"}), pod_text("missing", "n1", {.space = "c"}),
                R"({"kind": "Namespace", "metadata": {"name": "a", "labels": {"team": "web"}}})",
                R"({"kind": "Namespace", "metadata": {"name": "b"}})"});
  EXPECT_THAT(world.evicted(), ElementsAre("in"));
  EXPECT_THAT(world.find("out")->pre_eviction, ElementsAre(reason));
  EXPECT_THAT(world.find("out")->filter, IsEmpty());
  EXPECT_THAT(world.find("missing")->pre_eviction, ElementsAre(reason));
}

TEST(DefaultEvictor, NodeFitUsesTheNodesOfTheEvictorsSelector) {
  const std::vector<std::string> cluster{node_text("n1"), node_text("n2", {.cpu = "50m"}),
                                         node_text("n3", {.labels = R"("pool": "x")"}),
                                         pod_text("a", "n1")};
  EXPECT_THAT(plan_for(any_pod("{nodeFit: true}"), cluster).evicted(), ElementsAre("a"));
  const World none = plan_for(any_pod("{nodeFit: true, nodeSelector: pool!=x}"), cluster);
  EXPECT_THAT(none.evicted(), IsEmpty());
  EXPECT_THAT(none.find("a")->pre_eviction,
              ElementsAre("pod does not fit on any other node because of nodeSelector(s), "
                          "Taint(s), or nodes marked as unschedulable"));
}

}  // namespace
}  // namespace forestall::rebalance::test
