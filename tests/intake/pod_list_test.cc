// SPDX-License-Identifier: Apache-2.0
// The output of `kubectl get pods -o json`, as pods; and its errors with their places.
#include "intake/pod_list.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_tree.h"

namespace forestall::intake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Quantity quantity(std::string_view text) {
  return *parse_quantity(text);
}

std::vector<ListedPod> listed(const std::string& file) {
  const auto pods = parse_listed_pods(test::read_text(FORESTALL_TEST_DATA "/kubernetes/" + file));
  EXPECT_TRUE(pods) << (pods ? "" : pods.error().text());
  return pods ? *pods : std::vector<ListedPod>{};
}

Pod named(const std::string& name) {
  for (ListedPod& each : listed("node.pods.json")) {
    if (each.pod.name == name) return each.pod;
  }
  ADD_FAILURE() << "no pod " << name;
  return {};
}

// A list of one pod with this metadata (after uid and name), spec and status.
std::string list_of(const std::string& spec, const std::string& status = "{}",
                    const std::string& metadata = "") {
  return R"({"kind": "List", "apiVersion": "v1", "items": [{"kind": "Pod", "metadata": {"uid": "u",
    "name": "web-0", "namespace": "default")" +
         metadata + R"(}, "spec": )" + spec + R"(, "status": )" + status + "}]}";
}

Pod one(const std::string& spec, const std::string& status = "{}",
        const std::string& metadata = "") {
  const auto pods = parse_pod_list(list_of(spec, status, metadata));
  EXPECT_TRUE(pods) << (pods ? "" : pods.error().text());
  return pods && pods->size() == 1 ? pods->front() : Pod{};
}

std::string problem(const std::string& json) {
  const auto pods = parse_pod_list(json);
  EXPECT_FALSE(pods) << json;
  return pods ? "" : pods.error().text();
}

// Of the pod of list_of(), without its place in the list.
std::string pod_problem(const std::string& spec, const std::string& status = "{}",
                        const std::string& metadata = "") {
  const std::string text = problem(list_of(spec, status, metadata));
  const std::string place = "items[0] (default/web-0): ";
  EXPECT_THAT(text, StartsWith(place));
  return text.substr(std::min(place.size(), text.size()));
}

TEST(PodList, ReadsEveryPodOfAListInItsOrder) {
  std::vector<std::string> names;
  for (const ListedPod& each : listed("node.pods.json")) names.push_back(each.pod.name);
  EXPECT_THAT(names, ElementsAre("kube-apiserver-worker-1", "kube-proxy-8x2lq", "web-0", "batch-7",
                                 "resized", "budgeted", "scraper", "just-started", "done-job",
                                 "leaving", "elsewhere"));
  EXPECT_EQ(listed("node.pods.json").front().node, "worker-1");
  EXPECT_EQ(listed("node.pods.json").back().node, "worker-2");
}

TEST(PodList, AMirrorPodIsKnownByItsAnnotations) {
  const Pod pod = named("kube-apiserver-worker-1");
  EXPECT_EQ(pod.origin, PodOrigin::mirror);
  EXPECT_EQ(pod.config_hash, "5a7c3d9e1f2b4a6c8d0e2f4a6b8c0d1e");
  EXPECT_EQ(pod.priority, 2000001000);
  EXPECT_EQ(pod.priority_class, "system-node-critical");
  ASSERT_EQ(pod.volumes.size(), 2u);
  EXPECT_EQ(pod.volumes[0].kind, VolumeKind::host_path);
  EXPECT_EQ(pod.volumes[1].kind, VolumeKind::other);
}

TEST(PodList, TheSourceDistinguishesStaticPods) {
  EXPECT_EQ(named("kube-proxy-8x2lq").origin, PodOrigin::api);
  EXPECT_EQ(named("web-0").origin, PodOrigin::api);
  const auto annotated = [](const std::string& annotations) {
    return one("{}", "{}", R"(, "annotations": {)" + annotations + "}");
  };
  const Pod file =
      annotated(R"("kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "abc")");
  EXPECT_EQ(file.origin, PodOrigin::static_file);
  EXPECT_EQ(file.config_hash, "abc");
  EXPECT_EQ(annotated(R"("kubernetes.io/config.source": "http")").origin, PodOrigin::static_file);
  // The source of a mirror pod may have any value, which is not read.
  EXPECT_EQ(annotated(R"("kubernetes.io/config.mirror": "")").origin, PodOrigin::mirror);
  EXPECT_EQ(annotated(R"("kubernetes.io/config.source": "api",
                         "kubernetes.io/config.mirror": "x")")
                .origin,
            PodOrigin::mirror);
  // Annotations of an API pod can be set by users, so they do not name its cgroup.
  EXPECT_EQ(annotated(R"("kubernetes.io/config.hash": "abc")").config_hash, "");
}

// A pod of the API server with these annotations, as facts.
std::vector<Pod> facts_of(const std::string& uid, const std::string& annotations) {
  const auto pods = parse_pod_list(R"({"kind": "Pod", "metadata": {"name": "n", "uid": ")" + uid +
                                   R"(", "annotations": {)" + annotations + "}}}");
  EXPECT_TRUE(pods) << (pods ? "" : pods.error().text());
  return pods ? *pods : std::vector<Pod>{};
}

std::string hash_annotation(const std::string& hash) {
  return R"("kubernetes.io/config.hash": ")" + hash + '"';
}

// Tenants write annotations, and choose no UID.
TEST(PodList, APodOfTheApiServerIsNotStaticByItsAnnotations) {
  const std::string uid = "7d1e0001-3c41-4b6e-9d0a-5f2e7c1a0001";
  const std::string other = "7d1e0002-3c41-4b6e-9d0a-5f2e7c1a0002";
  const std::string hash = hash_annotation(other);
  for (const std::string kind :
       {R"("kubernetes.io/config.source": "file")", R"("kubernetes.io/config.mirror": "x")"}) {
    const auto facts = facts_of(uid, kind + ", " + hash);
    ASSERT_EQ(facts.size(), 1u) << kind;
    EXPECT_EQ(facts[0].uid, uid);
    EXPECT_EQ(facts[0].origin, PodOrigin::api) << kind;
    EXPECT_EQ(facts[0].config_hash, "") << kind;
  }
}

TEST(PodList, AStaticPodIsKnownByTheHashThatNamesItsCgroup) {
  const std::string uid = "7d1e0001-3c41-4b6e-9d0a-5f2e7c1a0001";
  const std::string hash = "5a7c3d9e1f2b4a6c8d0e2f4a6b8c0d1e";
  const std::string annotation = hash_annotation(hash);
  const auto mirror = facts_of(uid, annotation + R"(, "kubernetes.io/config.mirror": "x")");
  ASSERT_EQ(mirror.size(), 2u);
  EXPECT_EQ(mirror[0].uid, uid);
  EXPECT_EQ(mirror[0].origin, PodOrigin::api) << "its own cgroup, if it has one, is a tenant's";
  EXPECT_EQ(mirror[1].uid, hash);
  EXPECT_EQ(mirror[1].origin, PodOrigin::static_file);
  // As the kubelet lists it.
  const auto own = facts_of(hash, annotation + R"(, "kubernetes.io/config.source": "file")");
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].origin, PodOrigin::static_file);
  EXPECT_EQ(own[0].config_hash, hash);
}

TEST(PodList, SeveralMirrorPodsMakeOneStaticPod) {
  std::string items;
  for (const std::string digit : {"1", "2"}) {
    items += items.empty() ? "" : ",";
    items += R"({"metadata": {"name": "n", "uid": "7d1e0001-3c41-4b6e-9d0a-5f2e7c1a000)" + digit +
             R"(", "annotations": {"kubernetes.io/config.mirror": "x",
             "kubernetes.io/config.hash": "5a7c3d9e1f2b4a6c8d0e2f4a6b8c0d1e"}}})";
  }
  const auto pods = parse_pod_list(R"({"kind": "PodList", "items": [)" + items + "]}");
  ASSERT_TRUE(pods);
  EXPECT_EQ(pods->size(), 3u);
}

// The agent compares the value with the policy. The head of a long one suffices for that.
TEST(PodList, ReadsForestallsOwnAnnotationsAndNoOther) {
  EXPECT_EQ(named("web-0").annotations, PodAnnotations{});
  const auto annotated = [](const std::string& annotations) {
    return one("{}", "{}", R"(, "annotations": {)" + annotations + "}").annotations;
  };
  const PodAnnotations all = annotated(
      R"("forestall.dev/protected": "true", "forestall.dev/prefer": "no", "x/avoid": "true",
         "forestall.dev/avoid": "")");
  EXPECT_EQ(all.is_protected, "true");
  EXPECT_EQ(all.prefer, "no");
  EXPECT_EQ(all.avoid, "");
  EXPECT_EQ(annotated(R"("forestall.dev/Protected": "true")"), PodAnnotations{});
  const PodAnnotations longer =
      annotated(R"("forestall.dev/prefer": ")" + std::string(100'000, 'x') + "\"");
  EXPECT_EQ(longer.prefer, std::string(PodAnnotations::kValueMax, 'x'));
}

TEST(PodList, ReadsContainersSidecarsAndOverhead) {
  const Pod pod = named("batch-7");
  EXPECT_EQ(pod.pod_namespace, "jobs");
  EXPECT_EQ(pod.priority, -10);
  EXPECT_EQ(pod.overhead.memory, quantity("20Mi"));
  EXPECT_EQ(pod.overhead.cpu, quantity("50m"));
  EXPECT_EQ(pod.overhead.ephemeral_storage, std::nullopt);
  ASSERT_EQ(pod.containers.size(), 2u);
  EXPECT_EQ(pod.containers[0].name, "worker");
  EXPECT_EQ(pod.containers[0].requests.ephemeral_storage, quantity("1Gi"));
  EXPECT_EQ(pod.containers[0].limits.cpu, std::nullopt);
  EXPECT_EQ(pod.containers[0].limits.memory, quantity("1Gi"));
  EXPECT_THAT(pod.containers[0].id, testing::SizeIs(64));
  EXPECT_FALSE(pod.containers[0].restartable);
  ASSERT_EQ(pod.init_containers.size(), 2u);
  EXPECT_FALSE(pod.init_containers[0].restartable);
  EXPECT_TRUE(pod.init_containers[1].restartable);
  EXPECT_THAT(pod.init_containers[1].id, testing::SizeIs(64));
}

TEST(PodList, RequestsOfAResizedContainerAreTheAllocatedOnes) {
  const Pod pod = named("resized");
  EXPECT_EQ(pod.containers[0].requests.memory, quantity("1Gi"));
  EXPECT_EQ(pod.containers[0].requests.cpu, quantity("1"));
  // Resources without an allocation in the status stay as declared.
  const Pod partly = one(R"({"containers": [{"name": "a", "resources": {"requests":
                              {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "3Gi"}}}]})",
                         R"({"containerStatuses": [
                              {"name": "gone", "allocatedResources": {"memory": "9Gi"}},
                              {"name": "a", "containerID": "cri-o://0123",
                               "allocatedResources": {"memory": "1Gi"}}]})");
  EXPECT_EQ(partly.containers[0].requests.memory, quantity("1Gi"));
  EXPECT_EQ(partly.containers[0].requests.cpu, quantity("1"));
  EXPECT_EQ(partly.containers[0].requests.ephemeral_storage, quantity("3Gi"));
  EXPECT_EQ(partly.containers[0].id, "0123");
}

TEST(PodList, ResourcesOfThePodItself) {
  const Pod pod = named("budgeted");
  ASSERT_TRUE(pod.requests);
  ASSERT_TRUE(pod.limits);
  EXPECT_EQ(pod.requests->memory, quantity("200Mi"));
  EXPECT_EQ(pod.limits->cpu, quantity("2"));
  EXPECT_EQ(named("web-0").requests, std::nullopt);
  const Pod limited = one(R"({"resources": {"limits": {"memory": "1Gi"}}})");
  EXPECT_EQ(limited.requests, std::nullopt);
  ASSERT_TRUE(limited.limits);
}

TEST(PodList, PhaseDeletionQosAndGrace) {
  EXPECT_EQ(named("done-job").phase, PodPhase::succeeded);
  EXPECT_EQ(named("leaving").phase, PodPhase::failed);
  EXPECT_TRUE(named("leaving").terminating);
  EXPECT_FALSE(named("web-0").terminating);
  EXPECT_EQ(named("just-started").phase, PodPhase::pending);
  EXPECT_EQ(named("web-0").phase, PodPhase::running);
  EXPECT_EQ(named("web-0").status_qos, QosClass::guaranteed);
  EXPECT_EQ(named("web-0").termination_grace, Duration(std::chrono::seconds(60)));
  const Pod bare = one("{}");
  EXPECT_EQ(bare.phase, PodPhase::unknown);
  EXPECT_EQ(bare.status_qos, std::nullopt);
  EXPECT_EQ(bare.priority, std::nullopt);
  EXPECT_EQ(bare.termination_grace, std::nullopt);
  EXPECT_EQ(one("{}", R"({"qosClass": ""})").status_qos, std::nullopt);
  EXPECT_EQ(one(R"({"terminationGracePeriodSeconds": 9223372036854775807})").termination_grace,
            Duration(std::chrono::seconds(9223372036)));
}

TEST(PodList, Volumes) {
  const Pod pod = one(R"({"volumes": [
      {"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {"medium": "Memory"}},
      {"name": "c", "emptyDir": {"medium": "HugePages-2Mi", "sizeLimit": 1048576}},
      {"name": "d", "hostPath": {"path": "/"}}, {"name": "e", "configMap": {"name": "x"}},
      {"name": "f", "gitRepo": {"repository": "x"}}, {"name": "g", "secret": {}},
      {"name": "h", "emptyDir": null, "persistentVolumeClaim": {"claimName": "x"}}]})");
  ASSERT_EQ(pod.volumes.size(), 8u);
  EXPECT_EQ(pod.volumes[0], (PodVolume{"a", VolumeKind::empty_dir, false, true, {}}));
  EXPECT_EQ(pod.volumes[1], (PodVolume{"b", VolumeKind::empty_dir, true, false, {}}));
  EXPECT_EQ(pod.volumes[2], (PodVolume{"c", VolumeKind::empty_dir, false, false, quantity("1Mi")}));
  EXPECT_EQ(pod.volumes[3].kind, VolumeKind::host_path);
  EXPECT_EQ(pod.volumes[4].kind, VolumeKind::config_map);
  EXPECT_EQ(pod.volumes[5].kind, VolumeKind::git_repo);
  EXPECT_EQ(pod.volumes[6].kind, VolumeKind::other);
  EXPECT_EQ(pod.volumes[7].kind, VolumeKind::other);
}

TEST(PodList, Tolerations) {
  const Pod pod = named("batch-7");
  ASSERT_EQ(pod.tolerations.size(), 2u);
  EXPECT_EQ(pod.tolerations[1],
            (Toleration{"node.kubernetes.io/memory-pressure", "Exists", "", "NoSchedule"}));
}

// A quantity may be a number, and null is 0 (apimachinery Quantity.UnmarshalJSON).
TEST(PodList, QuantitiesInEveryFormTheApiTakes) {
  const auto memory = [](const std::string& json) {
    return one(R"({"containers": [{"name": "a", "resources": {"requests": {"memory": )" + json +
               "}}}]}")
        .containers[0]
        .requests.memory;
  };
  EXPECT_EQ(memory(R"("1.5Gi")"), quantity("1536Mi"));
  EXPECT_EQ(memory("1073741824"), quantity("1Gi"));
  EXPECT_EQ(memory("0.1"), quantity("100m"));
  EXPECT_EQ(memory("1e3"), quantity("1k"));
  EXPECT_EQ(memory("1e30"), quantity("1e30"));
  EXPECT_EQ(memory("18446744073709551615"), quantity("18446744073709551615"));
  EXPECT_EQ(memory("null"), quantity("0"));
  EXPECT_EQ(memory(R"("128e6")"), quantity("128M"));
}

TEST(PodList, UnknownKeysNullsAndOtherResourcesPassBy) {
  const Pod pod = one(R"({"priority": null, "future": {"deep": [1, {"x": null}]}, "containers": [
      {"name": "a", "resources": {"requests": {"nvidia.com/gpu": "one"}, "claims": []}}],
      "ephemeralContainers": [{"name": "debug", "resources": {"limits": {"memory": "bad"}}}],
      "initContainers": null, "volumes": null})",
                      R"({"containerStatuses": null, "phase": "Ascended"})");
  EXPECT_EQ(pod.containers[0].requests, ResourceList{});
  EXPECT_EQ(pod.priority, std::nullopt);
  EXPECT_EQ(pod.phase, PodPhase::unknown);
}

// encoding/json: the last of a repeated key counts.
TEST(PodList, TheLastOfARepeatedKeyCounts) {
  EXPECT_EQ(one(R"({"priority": 1, "priority": 2})").priority, 2);
}

TEST(PodList, KindsOfDocuments) {
  EXPECT_THAT(*parse_pod_list(R"({"kind": "List", "items": []})"), IsEmpty());
  EXPECT_THAT(*parse_pod_list(R"({"kind": "PodList", "items": null})"), IsEmpty());
  // Kubelet's own /pods: items have no kind.
  const auto pods = parse_pod_list(
      R"({"kind": "PodList", "apiVersion": "v1", "metadata": {},
          "items": [{"metadata": {"uid": "u", "name": "n"}}]})");
  ASSERT_TRUE(pods);
  EXPECT_EQ(pods->front().uid, "u");
  const auto single = parse_pod_list(R"({"kind": "Pod", "metadata": {"uid": "u", "name": "n"}})");
  ASSERT_TRUE(single);
  EXPECT_EQ(single->front().name, "n");
}

TEST(PodList, OtherDocumentsAreRefused) {
  EXPECT_THAT(problem(R"({"items": []})"), StartsWith("'kind' is missing"));
  EXPECT_EQ(problem(R"({"kind": "Table"})"), "kind is Table, expected List, PodList or Pod");
  EXPECT_EQ(problem("[]"), "expected an object, found a list");
  EXPECT_EQ(problem(R"({"kind": "List", "apiVersion": "v2"})"),
            "apiVersion: expected v1, found 'v2'");
  EXPECT_EQ(problem(R"({"kind": "List", "items": {}})"), "items: expected a list, found an object");
  EXPECT_EQ(problem(R"({"kind": "List", "items": [{"kind": "Service", "metadata":
                        {"name": "web", "namespace": "default"}}]})"),
            "items[0] (default/web): kind is Service, expected Pod");
  EXPECT_EQ(problem(R"({"kind": "List", "items": [{}]})"), "items[0]: 'kind' is missing");
  EXPECT_EQ(problem(R"({"kind": "List", "items": [3]})"),
            "items[0]: expected an object, found a number");
}

TEST(PodList, IdentityIsRequiredAndUnique) {
  EXPECT_EQ(problem(R"({"kind": "PodList", "items": [{"metadata": {"name": "web"}}]})"),
            "items[0] (web): metadata: 'uid' is missing");
  EXPECT_EQ(problem(R"({"kind": "PodList", "items": [{"metadata": {"uid": "u"}}]})"),
            "items[0]: metadata: 'name' is missing");
  EXPECT_EQ(problem(R"({"kind": "PodList", "items": [{"metadata": {"uid": "", "name": "web"}}]})"),
            "items[0] (web): metadata.uid: must not be empty");
  EXPECT_EQ(problem(R"({"kind": "PodList", "items": [{}]})"), "items[0]: 'metadata' is missing");
  EXPECT_EQ(problem(R"({"kind": "PodList", "items": [
                        {"metadata": {"uid": "u", "name": "a", "namespace": "x"}},
                        {"metadata": {"uid": "u", "name": "b", "namespace": "x"}}]})"),
            "items[1] (x/b): metadata.uid: same UID as items[0] (x/a): u");
  EXPECT_EQ(pod_problem(R"({"containers": [{"name": "a"}, {"name": "a"}]})"),
            "spec.containers[1]: duplicate container 'a'");
}

TEST(PodList, MistakesNameTheirPlace) {
  EXPECT_THAT(pod_problem(R"({"containers": [{"name": "a"}, {"name": "b",
                              "resources": {"requests": {"memory": "1 GB"}}}]})"),
              testing::AllOf(StartsWith("spec.containers[1].resources.requests.memory: "
                                        "quantities must match"),
                             testing::EndsWith(": '1 GB'")));
  EXPECT_EQ(pod_problem(R"({"containers": [{"name": "a", "resources":
                            {"limits": {"ephemeral-storage": true}}}]})"),
            "spec.containers[0].resources.limits.ephemeral-storage: expected a string or a "
            "number, found a boolean");
  EXPECT_EQ(pod_problem(R"({"overhead": {"memory": "-1Mi"}})"),
            "spec.overhead.memory: must not be negative: '-1Mi'");
  EXPECT_EQ(pod_problem(R"({"priority": "high"})"),
            "spec.priority: expected a whole number, found a string");
  EXPECT_EQ(pod_problem(R"({"priority": 2147483648})"),
            "spec.priority: does not fit into 32 bits: 2147483648");
  EXPECT_EQ(pod_problem(R"({"priority": 1.5})"),
            "spec.priority: expected a whole number, found 1.5");
  EXPECT_EQ(pod_problem(R"({"containers": [{}]})"), "spec.containers[0]: 'name' is missing");
  EXPECT_EQ(pod_problem("[]"), "spec: expected an object, found a list");
  EXPECT_THAT(pod_problem(R"({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "much"}}]})"),
              StartsWith("spec.volumes[0].emptyDir.sizeLimit: quantities must match"));
  EXPECT_EQ(pod_problem("{}", R"({"qosClass": "Platinum"})"),
            "status.qosClass: expected Guaranteed, Burstable or BestEffort, found 'Platinum'");
  EXPECT_EQ(pod_problem("{}", R"({"containerStatuses": [{"name": 1}]})"),
            "status.containerStatuses[0].name: expected a string, found a number");
  EXPECT_EQ(pod_problem("{}", "{}", R"(, "annotations": {"kubernetes.io/config.source": 1})"),
            "metadata.annotations['kubernetes.io/config.source']: expected a string, found a "
            "number");
  EXPECT_EQ(pod_problem("{}", "{}", R"(, "annotations": {"forestall.dev/protected": true})"),
            "metadata.annotations['forestall.dev/protected']: expected a string, found a boolean");
}

TEST(PodList, ReportsInvalidJsonByLineAndColumn) {
  EXPECT_EQ(problem(""), "invalid JSON: the text is empty");
  EXPECT_EQ(problem("{\n  \"kind\": \"List\",\n  \"items\": [tru]\n}"),
            "3:13: invalid JSON: expected true, false or null");
  EXPECT_EQ(problem("{\n  \"kind\": \"\xff\"}"), "2:12: invalid JSON: not UTF-8");
  EXPECT_THAT(problem("{\"kind\": \"List\", \"items\": [{\"a\" 1}]}"),
              HasSubstr("1:33: invalid JSON"));
  EXPECT_THAT(problem("{\"kind\": \"List\", \"items\": ["), HasSubstr("invalid JSON"));
  EXPECT_THAT(problem("{\"kind\": \"Li"), HasSubstr("a string is not closed"));
  EXPECT_THAT(problem("error: You must be logged in to the server"),
              HasSubstr("1:1: invalid JSON"));
  EXPECT_THAT(problem(std::string(2000, '[')), HasSubstr("invalid JSON"));
}

TEST(PodList, ReadsAListOfAnySizeAndCountsItsPods) {
  std::string json = R"({"apiVersion": "v1", "items": [)";
  for (int i = 0; i < 85; ++i) {
    json += i == 0 ? "" : ",\n";
    json += R"({"kind": "Pod", "metadata": {"name": "n", "uid": "u)" + std::to_string(i) +
            R"(", "annotations": {"x": ")" + std::string(20'000, 'x') + "\"}}}";
  }
  json += R"(], "kind": "List"})";
  const test::TempTree files{{"pods.json", json}};
  const auto open_list = [&] {
    return UniqueFd(::open((files / "pods.json").c_str(), O_RDONLY | O_CLOEXEC));
  };
  const auto pods = read_pod_list(open_list(), "pods.json");
  ASSERT_TRUE(pods) << pods.error().text();
  ASSERT_EQ(pods->size(), 85u);
  EXPECT_EQ(pods->back().uid, "u84");
  EXPECT_TRUE(read_pod_list(open_list(), "pods.json", 85));
  EXPECT_EQ(read_pod_list(open_list(), "pods.json", 84).error().text(),
            "more than 84 pods; list the pods of this node only");
}

TEST(PodList, ReportsAMistakeInALaterPodByItsPlaceInTheText) {
  EXPECT_EQ(problem("{\"kind\": \"List\", \"items\": [\n {\"a\":\n  tru}]}"),
            "3:3: invalid JSON: expected true, false or null");
  EXPECT_EQ(problem("{\"kind\": \"List\", \"items\": [\n {\"a\": tru}]}"),
            "2:8: invalid JSON: expected true, false or null");
}

}  // namespace
}  // namespace forestall::intake
