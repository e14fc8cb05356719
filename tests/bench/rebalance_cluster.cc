// SPDX-License-Identifier: Apache-2.0
#include "rebalance_cluster.h"

#include <fmt/format.h>

namespace forestall::test {
namespace {

std::string node_json(int index) {
  return fmt::format(
      R"({{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "node-{0:05}", "labels": )"
      R"({{"kubernetes.io/hostname": "node-{0:05}", "topology.kubernetes.io/zone": "z{1}"}}}}, )"
      R"("status": {{"allocatable": {{"cpu": "32", "memory": "128Gi", "pods": "110"}},)"
      R"( "conditions": [{{"type": "Ready", "status": "True"}}]}}}})",
      index, index % 3);
}

// What the API server has of a small web server, without spaces.
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
      R"("labelSelector": {{"matchLabels": {{"app": "app-{0:05}"}}}}}}], "affinity": )"
      R"({{"podAntiAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution": )"
      R"([{{"topologyKey": "kubernetes.io/hostname", "labelSelector": {{"matchLabels": )"
      R"({{"app": "app-{0:05}"}}}}}}]}}}}, "volumes": [{{"name": )"
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

}  // namespace

std::string cluster_json(int nodes, int pods) {
  std::string text = R"({"apiVersion": "v1", "items": [)";
  for (int i = 0; i < nodes; ++i) text += node_json(i) + ",\n";
  for (int i = 0; i < pods; ++i)
    text += pod_json(i, node_of(i, nodes)) + (i + 1 < pods ? ",\n" : "");
  return text + R"(], "kind": "List"})";
}

}  // namespace forestall::test
