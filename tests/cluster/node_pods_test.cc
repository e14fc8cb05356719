// SPDX-License-Identifier: Apache-2.0
// What the agent receives of pods: changes only, in small requests, and nothing that one tenant
// writes about the pod of another.
#include "cluster/node_pods.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/annotation_events.h"
#include "policy/pod_requests.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

using kubernetes::ChangeType;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kHash = "0123456789abcdef0123456789abcdef";

std::string pod(const std::string& uid, const std::string& spec = "",
                const std::string& annotations = "") {
  return fmt::format(
      R"({{"metadata":{{"uid":"{}","name":"n-{}","namespace":"s","annotations":{{{}}}}},)"
      R"("spec":{{"nodeName":"here","containers":[{{"name":"c"}}]{}{}}}}})",
      uid, uid, annotations, spec.empty() ? "" : ",", spec);
}

constexpr const char* kBurstable =
    R"("initContainers":[{"name":"i","resources":{"requests":{"memory":"1Mi"}}}])";

std::string guaranteed(const std::string& uid) {
  std::string text = pod(uid);
  text.insert(text.size() - 1, R"(,"status":{"qosClass":"Guaranteed"})");
  return text;
}

std::string mirror(const std::string& uid, const std::string& hash, const std::string& spec = "") {
  return pod(uid, spec,
             fmt::format(R"("kubernetes.io/config.mirror":"{}","kubernetes.io/config.hash":"{}",)"
                         R"("kubernetes.io/config.source":"file")",
                         hash, hash));
}

// The agent's side.
class Received {
 public:
  void take(const std::vector<v1::UpdatePodsRequest>& requests) {
    for (const v1::UpdatePodsRequest& each : requests) {
      EXPECT_LE(each.ByteSizeLong(), std::size_t{16} << 10);
      if (each.begins_list()) pods.clear();
      for (const v1::Pod& pod : each.pods()) {
        // So that the order in which the agent applies both does not matter.
        EXPECT_THAT(each.removed(), Not(Contains(pod.uid())));
        pods[pod.uid()] = pod;
      }
      for (const std::string& uid : each.removed()) pods.erase(uid);
    }
  }
  [[nodiscard]] std::vector<std::string> uids() const {
    std::vector<std::string> all;
    for (const auto& [uid, pod] : pods) all.push_back(uid);
    return all;
  }
  std::map<std::string, v1::Pod> pods;
};

class NodePodsTest : public ::testing::Test {
 protected:
  bool change(ChangeType type, const std::string& json) {
    const auto document = text::JsonDocument::parse(json);
    EXPECT_TRUE(document) << json;
    return pods_.changed(type, document->root()).ok();
  }
  bool list(const std::vector<std::string>& all) {
    pods_.list_begins();
    for (const std::string& each : all) {
      const auto document = text::JsonDocument::parse(each);
      EXPECT_TRUE(document) << each;
      if (!pods_.listed(document->root())) return false;
    }
    pods_.list_ends();
    return true;
  }
  NodePods pods_{"here"};
  Received agent_;
};

TEST_F(NodePodsTest, SendsTheListOnceAndThenChanges) {
  EXPECT_FALSE(pods_.complete());
  ASSERT_TRUE(list({pod("a"), pod("b")}));
  EXPECT_TRUE(pods_.complete());
  const auto requests = pods_.take_list();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_TRUE(requests.front().begins_list());
  EXPECT_TRUE(requests.front().ends_list());
  agent_.take(requests);
  EXPECT_THAT(agent_.uids(), ElementsAre("a", "b"));
  EXPECT_EQ(agent_.pods["a"].name(), "n-a");
  EXPECT_FALSE(pods_.has_changes());
  EXPECT_THAT(pods_.take_changes(), IsEmpty());
  EXPECT_TRUE(change(ChangeType::added, pod("c")));
  EXPECT_TRUE(change(ChangeType::modified, pod("a", R"("priority":7)")));
  EXPECT_TRUE(change(ChangeType::deleted, pod("b")));
  EXPECT_TRUE(pods_.has_changes());
  agent_.take(pods_.take_changes());
  EXPECT_THAT(agent_.uids(), ElementsAre("a", "c"));
  EXPECT_EQ(agent_.pods["a"].priority(), 7);
}

// Only the agent judges them, so each change is passed on as it is written.
TEST_F(NodePodsTest, SendsForestallsAnnotationsAndTheirChanges) {
  ASSERT_TRUE(list({pod("a", "", R"("forestall.dev/protected":"true","other":"x")")}));
  agent_.take(pods_.take_list());
  EXPECT_EQ(agent_.pods["a"].annotations().protected_(), "true");
  EXPECT_FALSE(agent_.pods["a"].annotations().has_avoid());
  EXPECT_TRUE(change(ChangeType::modified,
                     pod("a", "", R"("forestall.dev/protected":"true","other":"y")")));
  EXPECT_FALSE(pods_.has_changes()) << "another annotation is no fact";
  EXPECT_TRUE(change(ChangeType::modified, pod("a", "", R"("forestall.dev/avoid":"Yes")")));
  agent_.take(pods_.take_changes());
  EXPECT_FALSE(agent_.pods["a"].annotations().has_protected_());
  EXPECT_EQ(agent_.pods["a"].annotations().avoid(), "Yes");
  EXPECT_TRUE(change(ChangeType::modified, pod("a")));
  agent_.take(pods_.take_changes());
  EXPECT_FALSE(agent_.pods["a"].has_annotations());
}

// A status that changes each second must not make the agent rank again.
TEST_F(NodePodsTest, SendsNothingIfNoFactChanged) {
  ASSERT_TRUE(list({pod("a")}));
  agent_.take(pods_.take_list());
  std::string same = pod("a");
  same.insert(same.size() - 1, R"(,"status":{"podIP":"10.0.0.1","conditions":[{"type":"Ready"}]})");
  EXPECT_TRUE(change(ChangeType::modified, same));
  EXPECT_FALSE(pods_.has_changes());
  ASSERT_TRUE(list({same}));
  EXPECT_FALSE(pods_.has_changes());
}

TEST_F(NodePodsTest, RemovesWhatALaterListLacks) {
  ASSERT_TRUE(list({pod("a"), pod("b"), mirror("m", kHash)}));
  agent_.take(pods_.take_list());
  ASSERT_TRUE(list({pod("b"), pod("c")}));
  agent_.take(pods_.take_changes());
  EXPECT_THAT(agent_.uids(), ElementsAre("b", "c"));
}

TEST_F(NodePodsTest, KeepsPodsIfALaterListIsNotComplete) {
  ASSERT_TRUE(list({pod("a")}));
  agent_.take(pods_.take_list());
  EXPECT_FALSE(list({pod("b"), "{}"}));
  EXPECT_THAT(pods_.take_changes(), IsEmpty());
  EXPECT_EQ(pods_.size(), 1U);
}

TEST_F(NodePodsTest, IgnoresPodsOfOtherNodes) {
  std::string other = pod("a");
  other.replace(other.find("here"), 4, "elsewhere");
  ASSERT_TRUE(list({other, pod("b")}));
  agent_.take(pods_.take_list());
  EXPECT_THAT(agent_.uids(), ElementsAre("b"));
  EXPECT_TRUE(change(ChangeType::added, other));
  EXPECT_FALSE(pods_.has_changes());
}

// What is not known is not guessed: the agent infers the facts.
TEST_F(NodePodsTest, ForgetsAPodThatCannotBeReadAnyMore) {
  ASSERT_TRUE(list({pod("a"), pod("b")}));
  agent_.take(pods_.take_list());
  EXPECT_TRUE(change(ChangeType::modified, pod("a", R"("priority":"high")")));
  agent_.take(pods_.take_changes());
  EXPECT_THAT(agent_.uids(), ElementsAre("b"));
  EXPECT_EQ(pods_.unreadable(), 1U);
  EXPECT_THAT(pods_.unreadable_why(), HasSubstr("pod a: spec.priority"));
  EXPECT_FALSE(change(ChangeType::modified, R"({"kind":"Node","metadata":{"name":"x"}})"));
}

TEST_F(NodePodsTest, DetectsAStaticPodByTheHashOfItsCgroup) {
  ASSERT_TRUE(list({mirror("m", kHash)}));
  agent_.take(pods_.take_list());
  EXPECT_THAT(agent_.uids(), ElementsAre(kHash, "m"));
  EXPECT_EQ(agent_.pods[kHash].origin(), v1::Pod::STATIC_FILE);
  EXPECT_EQ(agent_.pods["m"].origin(), v1::Pod::API);
  EXPECT_TRUE(change(ChangeType::deleted, mirror("m", kHash)));
  agent_.take(pods_.take_changes());
  EXPECT_THAT(agent_.uids(), IsEmpty());
}

TEST_F(NodePodsTest, KeepsAStaticPodWhoseMirrorPodChanges) {
  ASSERT_TRUE(list({mirror("m", kHash)}));
  agent_.take(pods_.take_list());
  EXPECT_TRUE(change(ChangeType::modified, mirror("m", kHash, R"("priority":7)")));
  agent_.take(pods_.take_changes());
  EXPECT_THAT(agent_.uids(), ElementsAre(kHash, "m"));
  EXPECT_EQ(agent_.pods[kHash].priority(), 7);
}

// A tenant that marks its pod as static must not become one, and must not describe another pod.
TEST_F(NodePodsTest, MakesNoPodStaticByItsAnnotations) {
  const std::string victim = "11111111-2222-3333-4444-555555555555";
  ASSERT_TRUE(list({pod(victim, R"("priority":9)"), mirror("thief", victim, R"("priority":-1)"),
                    mirror("odd", "x"), pod("file", "", R"("kubernetes.io/config.source":"file")"),
                    pod("hash", "", fmt::format(R"("kubernetes.io/config.hash":"{}")", victim))}));
  agent_.take(pods_.take_list());
  EXPECT_THAT(agent_.uids(), ElementsAre(victim, "file", "hash", "odd", "thief"));
  EXPECT_EQ(agent_.pods[victim].priority(), 9);
  for (const auto& [uid, each] : agent_.pods) {
    EXPECT_EQ(each.origin(), v1::Pod::API) << uid;
    EXPECT_EQ(each.config_hash(), "") << uid;
  }
}

TEST_F(NodePodsTest, KeepsAStaticPodWhenAFalseMirrorIsDeleted) {
  ASSERT_TRUE(list({mirror("real", kHash)}));
  agent_.take(pods_.take_list());
  EXPECT_TRUE(change(ChangeType::added, mirror("false", kHash)));
  agent_.take(pods_.take_changes());
  EXPECT_TRUE(change(ChangeType::deleted, mirror("false", kHash)));
  agent_.take(pods_.take_changes());
  EXPECT_THAT(agent_.uids(), ElementsAre(kHash, "real"));
  EXPECT_EQ(agent_.pods[kHash].name(), "n-real");
}

TEST_F(NodePodsTest, SplitsRequests) {
  std::vector<std::string> all;
  for (int i = 0; i < 500; ++i) all.push_back(pod(fmt::format("uid-{:03}", i)));
  ASSERT_TRUE(list(all));
  const auto requests = pods_.take_list();
  EXPECT_GT(requests.size(), 1U);
  EXPECT_TRUE(requests.front().begins_list());
  EXPECT_TRUE(requests.back().ends_list());
  agent_.take(requests);
  EXPECT_EQ(agent_.pods.size(), 500U);
}

// `count` JSON objects, with {} replaced by a number.
std::string many(int count, const std::string& pattern) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    std::string one = pattern;
    one.replace(one.find("{}"), 2, std::to_string(i));
    all += (i == 0 ? "" : ",") + one;
  }
  return all;
}

// Otherwise a tenant could make its pod one without a known priority, which the agent spares.
TEST_F(NodePodsTest, SendsWhatDecidesOfAPodThatIsTooLarge) {
  const std::string tolerations = many(2000, R"({"key":"key-{}"})");
  const std::string volumes = many(500, R"({"name":"v{}","emptyDir":{}})");
  const std::string containers =
      many(1000, R"({"name":"c{}","resources":{"requests":{"memory":"1Mi"}}})");
  ASSERT_TRUE(
      list({fmt::format(R"({{"metadata":{{"uid":"large","name":"n","namespace":"s"}},"spec":{{)"
                        R"("nodeName":"here","priority":7,"tolerations":[{}],"volumes":[{}],)"
                        R"("containers":[{}]}},"status":{{"qosClass":"Burstable"}}}})",
                        tolerations, volumes, containers)}));
  agent_.take(pods_.take_list());
  ASSERT_THAT(agent_.uids(), ElementsAre("large"));
  const v1::Pod& large = agent_.pods["large"];
  EXPECT_EQ(large.priority(), 7);
  EXPECT_EQ(large.status_qos(), "Burstable");
  EXPECT_EQ(large.tolerations_size(), 0);
  ASSERT_EQ(large.containers_size(), 1);
  EXPECT_EQ(large.containers(0).requests().memory(), "1000Mi");
  EXPECT_EQ(pods_.shortened(), "s/n");
  EXPECT_EQ(pods_.unreadable(), 0U);
}

TEST_F(NodePodsTest, LeavesNothingOutOfAnOrdinaryPod) {
  ASSERT_TRUE(
      list({pod("a", R"("tolerations":[{"operator":"Exists"}],"volumes":[{"name":"v"}])")}));
  agent_.take(pods_.take_list());
  EXPECT_EQ(agent_.pods["a"].tolerations_size(), 1);
  EXPECT_EQ(agent_.pods["a"].volumes_size(), 1);
  EXPECT_EQ(pods_.shortened(), "");
}

PodContainer container(std::int64_t mebibytes, bool sidecar = false) {
  PodContainer made;
  made.name = std::string(60, 'x');
  made.requests.memory = binary(mebibytes << 20);
  if (mebibytes % 3 != 0) made.limits.memory = binary(mebibytes << 21);
  made.restartable = sidecar;
  return made;
}

TEST(FittedPod, HasTheRequestsAndLimitsOfTheWholePod) {
  for (int seed = 1; seed < 200; ++seed) {
    Pod pod;
    pod.uid = "u";
    for (int i = 0; i < 70 + seed % 5; ++i) pod.containers.push_back(container(seed * i % 17));
    for (int i = 0; i < seed % 90; ++i) {
      pod.init_containers.push_back(container(seed * i % 899, i * seed % 3 == 0));
    }
    const ResourceList requests = policy::pod_requests(pod);
    const ResourceList limits = policy::pod_limits(pod);
    EXPECT_EQ(fit(pod), Fit::shortened);
    EXPECT_LE(pod.containers.size() + pod.init_containers.size(), 3U);
    EXPECT_EQ(policy::pod_requests(pod), requests) << seed;
    EXPECT_EQ(policy::pod_limits(pod), limits) << seed;
  }
}

TEST(FittedPod, OfNamesThatAreTooLongIsNone) {
  Pod pod;
  pod.priority_class = std::string(kPodBytesMax, 'x');
  EXPECT_EQ(fit(pod), Fit::too_large);
}

// An empty list may be that of a node that does not exist.
TEST_F(NodePodsTest, IsNotCompleteBeforeAPodOrTheNodeIsKnown) {
  ASSERT_TRUE(list({}));
  EXPECT_FALSE(pods_.complete());
  EXPECT_TRUE(pods_.needs_node());
  EXPECT_TRUE(change(ChangeType::added, pod("a")));
  EXPECT_TRUE(pods_.complete());
  NodePods others("here");
  others.list_begins();
  others.list_ends();
  others.confirm_node();
  EXPECT_TRUE(others.complete());
}

TEST_F(NodePodsTest, FindsThePodOfACgroup) {
  const std::string uid = "0f5a7a4e-1111-2222-3333-444455556666";
  ASSERT_TRUE(list({pod(uid), pod("b", kBurstable), guaranteed("g"), mirror("m", kHash)}));
  const auto name_of = [this](std::string_view path, const std::string& root = "/") {
    const Pod* found = pods_.of_cgroup(path, root);
    return found == nullptr ? "none" : found->name;
  };
  EXPECT_EQ(name_of("/kubepods/besteffort/pod" + uid + "/c1"), "n-" + uid);
  EXPECT_EQ(name_of("/kubepods/besteffort/pod" + uid), "n-" + uid);
  EXPECT_EQ(name_of("/kubepods/burstable/pod" + uid), "none") << "it is BestEffort";
  EXPECT_EQ(name_of("/kubepods/podg/c1/podb"), "n-g") << "a cgroup of the tenant";
  EXPECT_EQ(name_of("/kubepods/podg/kubepods/burstable/podb"), "n-g") << "and another one";
  EXPECT_EQ(name_of("/a/b/kubepods/burstable/podb/c1", "/a/b"), "n-b");
  const std::string systemd = "pod0f5a7a4e_1111_2222_3333_444455556666.slice";
  EXPECT_EQ(name_of("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
                    "kubelet-kubepods-besteffort-" +
                        systemd + "/cri-containerd-c1.scope",
                    "/kubelet"),
            "n-" + uid);
  EXPECT_EQ(name_of("/kubepods.slice/kubepods-podg.slice/crio-c1.scope"), "n-g");
  EXPECT_EQ(name_of("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podb.slice"),
            "n-b");
  EXPECT_EQ(name_of("/kubepods/besteffort/pod" + std::string(kHash) + "/c1"), "none")
      << "a static pod";
  for (const char* path : {"", "/", "/pod", "/system.slice/ssh.service", "/kubepods/podx/c1",
                           "podb.", "/kubepods-pod.slice", "/kubepods", "/kubepods/",
                           "/kubepods.slice/kubepods-pod.slice", "/kubepods.slice/x"}) {
    EXPECT_EQ(name_of(path), "none") << path;
  }
}

// A user with a delegated cgroup, and root in a container, make cgroups of any name.
TEST_F(NodePodsTest, FindsNoPodForACgroupThatAnotherHasMade) {
  for (const std::string& each : {pod("b"), pod("b", kBurstable), guaranteed("b")}) {
    ASSERT_TRUE(list({each}));
    for (const char* path :
         {"/user.slice/user-1000.slice/user@1000.service/podb", "/podb", "/burstable/podb",
          "/user.slice/user-1000.slice/user@1000.service/kubepods/podb",
          "/user.slice/user@1000.service/kubepods.slice/kubepods-podb.slice",
          "/system.slice/x.service/kubepods/burstable/podb", "/kubepods/podx/podb",
          "/kubepods/burstable/podx/podb", "/kubepods/burstable/besteffort/podb", "/kubepodsb/podb",
          "/kubepods/x-podb.slice", "/kubepods/kubepods-podb.slice", "/kubepods.slice/podb",
          "/kubepods.slice/kubepods-burstable-podb.slice",
          "/kubepods.slice/kubepods-burstable.slice/kubepods-podb.slice",
          "/kubepods.slice/kubepods-burstable.slice/kubepods-besteffort-podb.slice",
          "/kubepods.slice/kubepods-podb"}) {
      const Pod* found = pods_.of_cgroup(path, "/");
      EXPECT_EQ(found, nullptr) << path;
    }
  }
  EXPECT_EQ(pods_.of_cgroup("/kubepods/podb", "/other"), nullptr) << "of another kubelet";
  EXPECT_NE(pods_.of_cgroup("/kubepods/podb", "/"), nullptr);
}

TEST_F(NodePodsTest, RefusesMorePodsThanANodeCanHave) {
  pods_.list_begins();
  Result<void> taken;
  std::size_t count = 0;
  for (; taken && count <= NodePods::kPodsMax; ++count) {
    const auto document = text::JsonDocument::parse(pod(std::to_string(count)));
    taken = pods_.listed(document->root());
  }
  EXPECT_FALSE(taken);
  EXPECT_EQ(count, NodePods::kPodsMax + 1);
  EXPECT_FALSE(list({pod("a"), pod("a")}));
}

// EventSeries reports each occurrence once.
TEST_F(NodePodsTest, AnAnnotationWithoutEffectIsOneOccurrenceWhateverItsValue) {
  ASSERT_TRUE(change(ChangeType::added, pod("a")));
  ASSERT_TRUE(change(ChangeType::added, pod("b")));
  v1::PodFactCounts status;
  for (const char* name : {"s/n-a", "s/gone", "n-b", "t/n-b"}) {
    for (const char* value : {"true", "yes"}) {
      v1::PodAnnotationProblem& problem = *status.add_annotation_problems();
      problem.set_pod(name);
      problem.set_annotation("prefer");
      problem.set_value(value);
    }
  }
  const auto events = annotation_events(status, pods_);
  ASSERT_EQ(events.size(), 2U) << "the others are unknown";
  EXPECT_EQ(events[0].event.subject.uid, "a");
  EXPECT_EQ(events[0].occurrence, events[1].occurrence);
  EXPECT_NE(events[0].event.message, events[1].event.message);
}

}  // namespace
}  // namespace forestall::cluster
