// SPDX-License-Identifier: Apache-2.0
// What Kubernetes reports of a pod, joined with its declarations.
#include "sources/workload_rules.h"

#include <gtest/gtest.h>

#include "support/temp_tree.h"

namespace forestall::sources::workload_rules_test {
namespace {

constexpr const char* kUid = "0a6f9c2e-1b7d-4c58-9f20-3d1e5a7b9c00";
constexpr const char* kHash = "4f1d2c3b4a5968778695a4b3c2d1e0ff";

Pod known(const std::string& uid) {
  Pod pod;
  pod.uid = uid;
  pod.name = "front";
  pod.pod_namespace = "shop";
  return pod;
}

Config knowing(const Pod& pod) {
  Config config;
  config.known_pods.push_back(nullptr);
  config.known_pods.push_back(std::make_shared<const Pod>(known("another")));
  config.known_pods.push_back(std::make_shared<const Pod>(pod));
  return config;
}

Workload workload(const std::string& uid, const Config& config) {
  const auto path = parse_pod_path("/kubepods/burstable/pod" + uid);
  EXPECT_TRUE(path);
  return pod_workload(*path, config, {});
}

TEST(KnownPods, AreAttachedByUidAndNamed) {
  Pod pod = known(kUid);
  pod.priority = 2'000'000'000;
  const auto found = workload(kUid, knowing(pod));
  ASSERT_TRUE(found.pod);
  EXPECT_EQ(*found.pod, pod);
  EXPECT_EQ(found.name, "shop/front");
  EXPECT_EQ(found.pod_uid, kUid);
  EXPECT_EQ(found.priority, std::nullopt) << "only what is declared; the rest is the policy's";
  EXPECT_EQ(found.protection, Protection::none);
}

TEST(KnownPods, DeclaredNamesCountBefore) {
  Config config = knowing(known(kUid));
  config.workloads.push_back({"/kubepods/*/*", "by-path", 5, mib(3), false});
  EXPECT_EQ(workload(kUid, config).name, "by-path");
  config.pod_rules.push_back({kUid, "by-uid", {}, {}, true});
  const auto found = workload(kUid, config);
  EXPECT_EQ(found.name, "by-uid");
  EXPECT_EQ(found.priority, 5);
  EXPECT_EQ(found.memory_request, mib(3));
  EXPECT_EQ(found.protection, Protection::declared);
  EXPECT_TRUE(found.pod);
}

TEST(KnownPods, AnUnknownOneIsNamedByItsCgroup) {
  const auto found = workload(kUid, knowing(known("yet-another")));
  EXPECT_FALSE(found.pod);
  EXPECT_EQ(found.name, std::string("pod") + kUid);
}

// The API server lists a static pod as its mirror, under another UID, with the hash that names the
// cgroup in an annotation.
TEST(KnownPods, AStaticPodIsFoundByItsHash) {
  Pod mirror = known("api-uid-of-the-mirror");
  mirror.config_hash = kHash;
  mirror.origin = PodOrigin::mirror;
  const auto found = workload(kHash, knowing(mirror));
  ASSERT_TRUE(found.pod);
  EXPECT_EQ(found.name, "shop/front");
  EXPECT_EQ(found.protection, Protection::static_pod);
}

TEST(KnownPods, APodIsFoundByItsUidBeforeAnotherOnesHash) {
  Pod other = known("other");
  other.config_hash = kHash;
  other.origin = PodOrigin::mirror;
  Config config = knowing(other);
  config.known_pods.push_back(std::make_shared<const Pod>(known(kHash)));
  EXPECT_EQ(workload(kHash, config).pod, config.known_pods.back());
}

// Otherwise a pod could describe another one by its annotation.
TEST(KnownPods, OnlyAHashOfAManifestMatchesAHash) {
  Pod other = known("other");
  other.config_hash = kUid;
  other.origin = PodOrigin::static_file;
  const auto found = workload(kUid, knowing(other));
  EXPECT_FALSE(found.pod);
  EXPECT_EQ(found.protection, Protection::none);
}

// A static pod whose manifest declares a UID cannot be recognized by its path, only by its
// declarations.
TEST(KnownPods, TheOriginProtectsOnAnyPath) {
  for (const PodOrigin origin : {PodOrigin::static_file, PodOrigin::mirror}) {
    Pod pod = known(kUid);
    pod.origin = origin;
    EXPECT_EQ(workload(kUid, knowing(pod)).protection, Protection::static_pod);
  }
}

TEST(KnownPods, AnnotationsCountByThePolicyAndAfterDeclarations) {
  Pod pod = known(kUid);
  pod.annotations.is_protected = "true";
  pod.annotations.avoid = "true";
  Config config = knowing(pod);
  EXPECT_EQ(workload(kUid, config).protection, Protection::none) << "off by default";
  EXPECT_EQ(workload(kUid, config).preference, Preference::normal);
  config.pod_annotations = {{"shop"}, {}, {"sh*"}};
  EXPECT_EQ(workload(kUid, config).protection, Protection::annotated);
  EXPECT_EQ(workload(kUid, config).preference, Preference::avoid);
  config.pod_rules.push_back({kUid, {}, {}, {}, true});
  EXPECT_EQ(workload(kUid, config).protection, Protection::declared);
}

TEST(KnownPods, AnnotationsNeedKnownFacts) {
  Config config;
  config.pod_annotations = {{"*"}, {"*"}, {"*"}};
  const auto unknown = workload(kUid, config);
  EXPECT_EQ(unknown.protection, Protection::none);
  EXPECT_EQ(unknown.preference, Preference::normal);
}

TEST(KnownPods, ALimitReplacesARequestOnlyForUnknownPods) {
  const test::TempTree files{{"cgroup/cgroup.controllers", "memory\n"},
                             {"cgroup/kubepods/poda/memory.max", "8388608\n"},
                             {"cgroup/kubepods/podb/memory.max", "8388608\n"}};
  const auto tree = kernel::CgroupTree::discover(files / "cgroup");
  ASSERT_TRUE(tree);
  std::vector<SourceNote> notes;
  const auto found = find_workloads(*tree, knowing(known("b")), "/kubepods", {}, {}, notes);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].memory_request, std::nullopt) << "nothing is declared";
  EXPECT_EQ(found[0].inferred, (InferredFacts{QosClass::guaranteed, {}, mib(8)}));
  EXPECT_EQ(found[1].memory_request, std::nullopt) << "the policy computes it";
  EXPECT_EQ(found[1].inferred, std::nullopt);
}

}  // namespace
}  // namespace forestall::sources::workload_rules_test
