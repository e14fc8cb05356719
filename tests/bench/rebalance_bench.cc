// SPDX-License-Identifier: Apache-2.0
// rebalance_bench [NODES] [PODS]: time and memory of the rebalancer on a generated cluster, from
// files to plans. Default: 5,000 nodes and 150,000 pods.
#include <fmt/format.h>
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>

#include "intake/cluster_snapshot.h"
#include "intake/descheduler_policy.h"
#include "rebalance/rebalance.h"

namespace forestall {
namespace {

// Time of the wall, and processor time, which other programs of the machine do not lengthen.
class Stopwatch {
 public:
  [[nodiscard]] std::string text() const {
    const auto cpu = static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> wall = Clock::now() - wall_;
    return fmt::format("{:7.3f} s  cpu {:7.3f} s", wall.count(), cpu);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point wall_ = Clock::now();
  std::clock_t cpu_ = std::clock();
};

constexpr std::int64_t kNow = 1'767'268'800'000'000'000;

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::string node_json(int index) {
  return fmt::format(
      R"({{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "node-{0:05}", "labels": )"
      R"({{"kubernetes.io/hostname": "node-{0:05}", "topology.kubernetes.io/zone": "z{1}"}}}}, )"
      R"("status": {{"allocatable": {{"cpu": "32", "memory": "128Gi", "pods": "110"}},)"
      R"( "conditions": [{{"type": "Ready", "status": "True"}}]}}}})",
      index, index % 3);
}

// About as large as what kubectl prints of a small web server.
std::string pod_json(int index, int node) {
  const int set = index / 10;
  return fmt::format(
      R"({{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "app-{0:05}-{1}", )"
      R"("namespace": "team-{2}", "uid": "00000000-0000-4000-8000-{1:012}", "creationTimestamp": )"
      R"("2025-12-01T00:00:00Z", "labels": {{"app": "app-{0:05}", "pod-template-hash": "7d9f"}}, )"
      R"("annotations": {{"checksum/config": "{1:064}"}}, "ownerReferences": [{{"apiVersion": )"
      R"("apps/v1", "kind": "ReplicaSet", "name": "app-{0:05}-7d9f", "uid": "rs-{0}", )"
      R"("controller": true}}]}}, "spec": {{"nodeName": "node-{3:05}", "priority": {4}, )"
      R"("containers": [{{"name": "web", "image": "registry.local/app-{0:05}:1.2.3", "env": )"
      R"([{{"name": "A", "value": "{1:0200}"}}, {{"name": "B", "value": "{1:0200}"}}], "ports": )"
      R"([{{"containerPort": 8080, "protocol": "TCP"}}], "resources": {{"requests": {{"cpu": )"
      R"("{5}m", "memory": "{6}Mi"}}, "limits": {{"memory": "{6}Mi"}}}}, "volumeMounts": )"
      R"([{{"name": "token", "mountPath": "/var/run/secrets", "readOnly": true}}]}}], )"
      R"("tolerations": [{{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": )"
      R"("NoExecute", "tolerationSeconds": 300}}], "topologySpreadConstraints": [{{"maxSkew": 1, )"
      R"("topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", )"
      R"("labelSelector": {{"matchLabels": {{"app": "app-{0:05}"}}}}}}], "volumes": [{{"name": )"
      R"("token", "projected": {{"sources": [{{"serviceAccountToken": {{"path": "t"}}}}]}}}}]}}, )"
      R"("status": {{"phase": "Running", "qosClass": "Burstable", "startTime": )"
      R"("2025-12-01T00:00:05Z", "conditions": [{{"type": "Ready", "status": "True", )"
      R"("lastTransitionTime": "2025-12-01T00:00:09Z"}}], "containerStatuses": [{{"name": "web", )"
      R"("restartCount": {7}, "ready": true, "image": "registry.local/app-{0:05}", "imageID": )"
      R"("registry.local/app@sha256:{1:064}", "containerID": "containerd://{1:064}", "state": )"
      R"({{"running": {{"startedAt": "2025-12-01T00:00:08Z"}}}}}}]}}}})",
      set, index, set % 100, node, index % 7 * 100, 100 + index % 5 * 250, 128 + index % 9 * 300,
      index % 50);
}

// Half of the nodes take three quarters of the pods.
int node_of(int index, int nodes) {
  return index % 4 != 0 ? (index * 7) % (nodes / 2) : nodes / 2 + (index * 3) % (nodes - nodes / 2);
}

std::string cluster_json(int nodes, int pods) {
  std::string text = R"({"apiVersion": "v1", "items": [)";
  for (int i = 0; i < nodes; ++i) text += node_json(i) + ",\n";
  for (int i = 0; i < pods; ++i)
    text += pod_json(i, node_of(i, nodes)) + (i + 1 < pods ? ",\n" : "");
  return text + R"(], "kind": "List"})";
}

struct Measured {
  const char* plugin;
  const char* point;
  const char* args;
};

constexpr Measured kMeasured[] = {
    {"LowNodeUtilization", "balance",
     "{thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 60, memory: 60}}"},
    {"HighNodeUtilization", "balance", "{thresholds: {cpu: 40}}"},
    {"RemoveDuplicates", "balance", "{}"},
    {"RemovePodsViolatingTopologySpreadConstraint", "balance", "{}"},
    {"RemovePodsViolatingInterPodAntiAffinity", "deschedule", "{}"},
    {"RemovePodsViolatingNodeTaints", "deschedule", "{}"},
    {"RemovePodsViolatingNodeAffinity", "deschedule",
     "{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}"},
    {"RemovePodsHavingTooManyRestarts", "deschedule", "{podRestartThreshold: 40}"},
    {"PodLifeTime", "deschedule", "{maxPodLifeTimeSeconds: 86400}"},
    {"RemoveFailedPods", "deschedule", "{}"},
};

bool measure_plan(const Measured& each, const char* evictor, const rebalance::Snapshot& snapshot) {
  const std::string text = fmt::format(
      "profiles: [{{name: p, pluginConfig: [{{name: DefaultEvictor, args: {}}}, {{name: {}, args: "
      "{}}}], plugins: {{{}: {{enabled: [{}]}}}}}}]",
      evictor, each.plugin, each.args, each.point, each.plugin);
  text::Findings findings;
  const auto policy = intake::parse_descheduler_policy("bench", text, nullptr, findings);
  if (!policy) {
    fmt::print(stderr, "{}\n", text::format(findings.errors));
    return false;
  }
  const Stopwatch watch;
  const rebalance::Plan plan = rebalance::rebalance(policy->policy, snapshot);
  fmt::print("{:43} {:15} {}  {:6} evictions\n", each.plugin, evictor, watch.text(),
             plan.evictions.size());
  return true;
}

int run(int nodes, int pods) {
  intake::ClusterSnapshotReader reader;
  {
    std::string text = cluster_json(nodes, pods);
    fmt::print("{} nodes, {} pods, {} MiB of JSON\n", nodes, pods, text.size() >> 20U);
    const Stopwatch watch;
    const auto added = reader.add(std::move(text));
    if (!added) {
      fmt::print(stderr, "{}\n", added.error().text());
      return 1;
    }
    fmt::print("parse {}\n", watch.text());
  }
  const rebalance::Snapshot snapshot = reader.take(kNow);
  for (const Measured& each : kMeasured) {
    if (!measure_plan(each, "{}", snapshot)) return 1;
  }
  if (!measure_plan(kMeasured[0], "{nodeFit: true}", snapshot)) return 1;
  fmt::print("peak {:.0f} MiB, with the generated text in memory\n", peak_mib());
  return 0;
}

int number_of(std::string_view text, int otherwise) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && number > 1 ? number : otherwise;
}

}  // namespace
}  // namespace forestall

int main(int argc, char** argv) {
  constexpr int kNodes = 5000;
  constexpr int kPods = 150'000;
  const int nodes = argc > 1 ? forestall::number_of(argv[1], kNodes) : kNodes;
  const int pods = argc > 2 ? forestall::number_of(argv[2], kPods) : kPods;
  return forestall::run(nodes, pods);
}
