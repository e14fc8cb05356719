// SPDX-License-Identifier: Apache-2.0
#include "descheduler/cluster_snapshot.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::descheduler {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

rebalance::Snapshot read(const std::vector<std::string>& texts) {
  ClusterSnapshotReader reader;
  for (const std::string& each : texts) {
    const auto added = reader.add(each);
    EXPECT_TRUE(added) << added.error().text();
  }
  return reader.take(0);
}

std::string problem(const std::string& text) {
  ClusterSnapshotReader reader;
  const auto added = reader.add(text);
  return added ? "" : added.error().text();
}

constexpr const char* kPod = R"({"kind": "Pod", "apiVersion": "v1",
  "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"b": "2", "a": "1"},
    "annotations": {"descheduler.alpha.kubernetes.io/evict": "x"},
    "creationTimestamp": "1970-01-01T00:00:01Z",
    "ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "o"}]},
  "spec": {"nodeName": "n1", "priority": 7, "containers": [{"name": "c", "image": "i\"\\",
      "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "x.com/gpu": 2}}}],
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [{"name": "a", "configMap": {}}, {"name": "b",
                 "persistentVolumeClaim": {"claimName": "data"}}]},
  "status": {"phase": "Running", "qosClass": "Burstable",
    "containerStatuses": [{"restartCount": 3, "state": {"waiting": {"reason": "Backoff"}}}]}})";

TEST(ClusterSnapshot, ReadsPods) {
  const rebalance::Snapshot snapshot = read({kPod});
  ASSERT_THAT(snapshot.pods, SizeIs(1));
  const rebalance::ClusterPod& pod = snapshot.pods[0];
  EXPECT_EQ(pod.pod_namespace, "shop");
  EXPECT_EQ(rebalance::find_label(pod.labels, "b"), "2");
  EXPECT_TRUE(pod.evict_annotation);
  EXPECT_EQ(pod.created_ns, 1'000'000'000);
  EXPECT_EQ(rebalance::counted("cpu", pod.request.of("cpu")), 1500);
  EXPECT_EQ(rebalance::counted("x.com/gpu", pod.request.of("x.com/gpu")), 2);
  EXPECT_EQ(pod.qos, QosClass::burstable);
  EXPECT_EQ(pod.claims.at(0), "data");
  EXPECT_FALSE(pod.local_storage);
  EXPECT_EQ(pod.images.at(0), "i\"\\");
  EXPECT_EQ(pod.containers.at(0).restarts, 3);
  EXPECT_EQ(pod.tolerations.at(0).op, rebalance::TolerationOperator::exists);
}

std::string placed_pod(const std::string& name, const std::string& owner, const std::string& disk) {
  return R"({"kind": "Pod", "metadata": {"name": ")" + name +
         R"(", "ownerReferences": [{"uid": ")" + owner +
         R"("}]}, "spec": {"nodeSelector": {"disk": ")" + disk + R"("}}})";
}

TEST(ClusterSnapshot, PodsOfAWorkloadShareTheirPlacementIfItIsTheSame) {
  const rebalance::Snapshot snapshot =
      read({placed_pod("a", "o", "ssd") + placed_pod("b", "o", "ssd") +
            placed_pod("c", "o", "hdd") + placed_pod("d", "p", "hdd")});
  ASSERT_THAT(snapshot.pods, SizeIs(4));
  EXPECT_EQ(snapshot.pods[0].placement, snapshot.pods[1].placement);
  EXPECT_NE(snapshot.pods[1].placement, snapshot.pods[2].placement);
  EXPECT_EQ(snapshot.pods[2].placement->node_selector[0].second, "hdd");
  EXPECT_NE(snapshot.pods[2].placement, snapshot.pods[3].placement);
}

TEST(ClusterSnapshot, ReadsListsStreamsAndYaml) {
  const std::string pod = kPod;
  const std::string other = placed_pod("other", "o", "ssd");
  const std::string list = R"({"items": [)" + pod + "," + other + R"(], "kind": "List"})";
  EXPECT_THAT(read({list}).pods, SizeIs(2));
  EXPECT_THAT(read({placed_pod("first", "o", "ssd") + "\n" + list}).pods, SizeIs(3));
  // A typed list has no kinds in its items, and its own after them.
  EXPECT_THAT(read({R"({"items": [{"metadata": {"name": "n"}}], "kind": "NodeList"})"}).nodes,
              SizeIs(1));
  const rebalance::Snapshot yaml =
      read({"# nodes\nkind: Node\nmetadata: {name: b, labels: {a: "
            "'1'}}\nstatus:\n  allocatable: {cpu: 2, memory: 1Gi}\n"
            "---\nkind: Node\nmetadata:\n  name: a\n"});
  ASSERT_THAT(yaml.nodes, SizeIs(2));
  EXPECT_EQ(yaml.nodes[0].name, "a");
  EXPECT_EQ(rebalance::counted("cpu", yaml.nodes[1].allocatable.of("cpu")), 2000);
}

TEST(ClusterSnapshot, TheLastOfAnObjectThatIsGivenTwiceCounts) {
  const auto named = [](const char* kind, const char* more = "") {
    return fmt::format(R"({{"kind": "{}", "metadata": {{"name": "a"{}}}}})", kind, more);
  };
  const std::string space = R"(, "namespace": "s")";
  std::string text = placed_pod("a", "o", "ssd");
  for (const char* kind : {"Node", "Namespace", "PriorityClass", "PersistentVolume"}) {
    text += named(kind) + named(kind);
  }
  for (const char* kind : {"Pod", "PodDisruptionBudget", "PersistentVolumeClaim"}) {
    text += named(kind, space.c_str()) + named(kind, space.c_str());
  }
  const rebalance::Snapshot snapshot = read({text, placed_pod("a", "o", "hdd")});
  ASSERT_THAT(snapshot.pods, SizeIs(2));  // of two namespaces
  EXPECT_EQ(snapshot.pods[0].placement->node_selector.at(0).second, "hdd");
  EXPECT_THAT(snapshot.nodes, SizeIs(1));
  EXPECT_THAT(snapshot.namespaces, SizeIs(1));
  EXPECT_THAT(snapshot.priority_classes, SizeIs(1));
  EXPECT_THAT(snapshot.volumes, SizeIs(1));
  EXPECT_THAT(snapshot.budgets, SizeIs(1));
  EXPECT_THAT(snapshot.claims, SizeIs(1));
}

TEST(ClusterSnapshot, SkipsOtherKindsAndKeys) {
  EXPECT_THAT(read({R"({"kind": "Deployment", "metadata": {"name": "d"}})",
                    R"({"kind": "ReplicaSet", "metadata": {"name": "d"}})"})
                  .pods,
              SizeIs(0));
}

TEST(ClusterSnapshot, ReadsPrometheusVectors) {
  const char* const vector = R"([{"metric": {"instance": "n1"}, "value": [1, "0.5"]}])";
  const rebalance::Snapshot snapshot = read({vector});
  EXPECT_TRUE(snapshot.has_prometheus);
  ASSERT_THAT(snapshot.prometheus, SizeIs(1));
  EXPECT_DOUBLE_EQ(snapshot.prometheus[0].value, 0.5);
  const std::string data = fmt::format(R"({{"resultType": "vector", "result": {}}})", vector);
  EXPECT_THAT(read({data}).prometheus, SizeIs(1));
  EXPECT_THAT(read({fmt::format(R"({{"status": "success", "data": {}}})", data)}).prometheus,
              SizeIs(1));
  EXPECT_THAT(problem(R"({"status": "error", "errorType": "bad_data", "error": "no such query"})"),
              HasSubstr("Prometheus answered with an error: no such query"));
  EXPECT_THAT(problem(R"({"data": {"resultType": "matrix", "result": []}})"),
              HasSubstr("expected query results to be of type \"vector\", got \"matrix\""));
}

// As metrics-server answers: objects of a list without their kind, cpu in n or u, memory in Ki or,
// of its adapters, in any other form of a quantity.
TEST(ClusterSnapshot, ReadsMetricsInEveryFormOfAQuantity) {
  const std::pair<const char*, std::int64_t> memories[] = {{R"("5242880Ki")", 5'368'709'120},
                                                           {R"("5120Mi")", 5'368'709'120},
                                                           {R"("5Gi")", 5'368'709'120},
                                                           {R"("5368709120")", 5'368'709'120},
                                                           {"5368709120", 5'368'709'120},
                                                           {R"("5G")", 5'000'000'000},
                                                           {R"("5M")", 5'000'000},
                                                           {R"("5k")", 5'000},
                                                           {R"("5e9")", 5'000'000'000},
                                                           {R"("5368709120000m")", 5'368'709'120},
                                                           {R"("0")", 0},
                                                           {"0", 0}};
  for (const auto& [text, bytes] : memories) {
    SCOPED_TRACE(text);
    const std::string usage =
        R"("usage": {"cpu": "141592653n", "memory": )" + std::string(text) + "}";
    const rebalance::Snapshot snapshot =
        read({R"({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
             "items": [{"metadata": {"name": "n1"}, "timestamp": "2026-01-01T12:00:00Z",
                        "window": "20.055s", )" +
                  usage + "}]}",
              R"({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
             "items": [{"metadata": {"name": "web", "namespace": "shop"}, "timestamp": null,
                        "containers": [{"name": "a", )" +
                  usage + R"(}, {"name": "b", "usage": {"cpu": "250000u", "memory": "1Ki"}}]}]})"});
    ASSERT_THAT(snapshot.node_metrics, SizeIs(1));
    ASSERT_THAT(snapshot.pod_metrics, SizeIs(1));
    EXPECT_EQ(snapshot.node_metrics[0].time_ns, 1'767'268'800'000'000'000);
    EXPECT_EQ(snapshot.pod_metrics[0].time_ns, std::nullopt);
    const rebalance::Amounts& node = snapshot.node_metrics[0].usage;
    EXPECT_EQ(node.of("cpu"), rebalance::Nanos{141'592'653});
    EXPECT_EQ(rebalance::counted("memory", node.of("memory")), bytes);
    const rebalance::Amounts& pod = snapshot.pod_metrics[0].usage;
    EXPECT_EQ(pod.of("cpu"), rebalance::Nanos{391'592'653});
    EXPECT_EQ(rebalance::counted("memory", pod.of("memory")), bytes + 1024);
  }
  EXPECT_THAT(problem(R"({"kind": "NodeMetrics", "metadata": {"name": "n"},
                          "usage": {"cpu": "1", "memory": "5KiB"}})"),
              HasSubstr("5KiB"));
  EXPECT_THAT(problem(R"({"kind": "PodMetrics", "metadata": {"name": "p"}, "timestamp": "noon"})"),
              HasSubstr("expected a time (RFC 3339), found 'noon'"));
}

TEST(ClusterSnapshot, ReadsWhenAPodWasDeleted) {
  const auto pod = [](const std::string& name, const std::string& metadata) {
    return R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": ")" +
           name + '"' + metadata + "}}";
  };
  const rebalance::Snapshot snapshot =
      read({pod("a", ""), pod("b", R"(, "deletionTimestamp": "1970-01-01T00:01:00Z")"),
            pod("c", R"(, "deletionGracePeriodSeconds": 20,
                        "deletionTimestamp": "1970-01-01T00:01:00Z")"),
            pod("d", R"(, "deletionTimestamp": "soon", "deletionGracePeriodSeconds": 1)")});
  ASSERT_THAT(snapshot.pods, SizeIs(4));
  EXPECT_FALSE(snapshot.pods[0].terminating || snapshot.pods[0].deleted_ns);
  EXPECT_TRUE(snapshot.pods[1].terminating);
  EXPECT_EQ(snapshot.pods[1].deleted_ns, 60'000'000'000);
  EXPECT_EQ(snapshot.pods[2].deleted_ns, 40'000'000'000);
  EXPECT_TRUE(snapshot.pods[3].terminating);
  EXPECT_EQ(snapshot.pods[3].deleted_ns, std::nullopt);
}

TEST(ClusterSnapshot, ReadsReportsOfNodesInTheOrderOfTheirTimes) {
  const auto report = [](const std::string& time, const std::string& more) {
    return R"({"apiVersion": "forestall.dev/v1alpha1", "kind": "NodeReport", "metadata": {"name":
        "n"}, "status": {"time": ")" +
           time + "\"" + more + "}}";
  };
  const rebalance::Snapshot snapshot =
      read({report("2026-01-01T00:00:30Z", R"(, "memory": {"capacity": "2Gi", "usage": "1Gi"},
              "memoryStallPercent": {"some": 1.5}, "lastHour": {"oomKills": 2},
              "thresholds": [{"signal": "memory.available", "headroom": "-1Mi",
                              "growthPerSecond": "-2Ki", "secondsToCrossing": 7.5},
                             {"signal": "memory.kernel", "headroom": 1}],
              "pods": [{"namespace": "a", "name": "b", "workingSet": "3Mi"},
                       {"namespace": "a", "name": "c", "workingSet": "3Mi",
                        "growthPerSecond": 0}])"),
            report("2026-01-01T00:00:00Z", "")});
  ASSERT_THAT(snapshot.reports, SizeIs(2));
  EXPECT_EQ(snapshot.reports[0].usage, std::nullopt);
  EXPECT_EQ(snapshot.reports[0].full, std::nullopt);
  const rebalance::NodeReport& newest = snapshot.reports[1];
  EXPECT_EQ(newest.time_ns - snapshot.reports[0].time_ns, 30'000'000'000);
  EXPECT_EQ(newest.some, 1.5);
  EXPECT_EQ(newest.oom_kills, 2);
  EXPECT_EQ(newest.evictions, std::nullopt);
  ASSERT_THAT(newest.thresholds, SizeIs(2));
  EXPECT_FALSE(newest.thresholds[1].growth) << "unknown";
  EXPECT_EQ(rebalance::counted("memory", newest.thresholds[0].headroom), -(1 << 20));
  EXPECT_EQ(rebalance::counted("memory", newest.thresholds[0].growth.value()), -2048);
  EXPECT_EQ(newest.thresholds[0].seconds, 7.5);
  ASSERT_THAT(newest.pods, SizeIs(2));
  EXPECT_EQ(newest.pods[0].name, "b");
  EXPECT_FALSE(newest.pods[0].growth) << "unknown";
  EXPECT_TRUE(newest.pods[1].growth == rebalance::Nanos{0});
  for (const auto& [more, message] : std::vector<std::pair<std::string, std::string>>{
           {R"(, "memoryStallPercent": {"full": 101})",
            "status.memoryStallPercent.full: expected percent from 0 to 100, found '101'"},
           {R"(, "thresholds": [{"headroom": 1}])", "status.thresholds[0]: 'signal' is missing"},
           {R"(, "thresholds": [{"signal": "m", "headroom": 1, "secondsToCrossing": -1}])",
            "secondsToCrossing: expected seconds, found '-1'"},
           {R"(, "lastHour": {"evictions": -1})", "expected a count, found -1"}}) {
    EXPECT_THAT(problem(report("2026-01-01T00:00:00Z", more)), HasSubstr(message));
  }
  EXPECT_THAT(problem(report("noon", "")), HasSubstr("expected a time (RFC 3339)"));
  EXPECT_THAT(problem(R"({"apiVersion": "forestall.dev/v2", "kind": "NodeReport"})"),
              HasSubstr("NodeReport: apiVersion: expected forestall.dev/v1alpha1"));
}

TEST(ClusterSnapshot, NamesPlaceAndObjectOfAMistake) {
  const struct {
    const char* text;
    const char* message;
  } rows[] = {
      {"{\"kind\": \"List\", \"items\": [\n  {\"kind\": \"Node\", \"metadata\": {}}]}",
       "2:3: Node: metadata: 'name' is missing"},
      {"{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\", \"namespace\": \"d\"}, \"spec\": "
       "{\"priority\": \"high\"}}",
       "1:1: Pod d/p: spec.priority: expected a whole number, found a string"},
      {"{\"kind\": \"Pod\"", "1:1: invalid JSON: a bracket is not closed"},
      {"{\"kind\": \"Node\",\n \"metadata\": {\"name\" \"n\"}}", "2:"},
      {"{\"items\": [{}]}", "1:12: 'kind' is missing"},
      {"kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {}\n",
       "4:1: Node: metadata: 'name' is missing"},
      {"kind: Node\nmetadata: [\n", "not valid YAML"},
  };
  for (const auto& row : rows) EXPECT_THAT(problem(row.text), HasSubstr(row.message)) << row.text;
}

}  // namespace
}  // namespace forestall::descheduler
