# SPDX-License-Identifier: Apache-2.0
"""A recording of a small cluster for `forestall rebalance simulate --trace`: three hours, a state
every five minutes. Nodes 1 and 2 are hot in turn. A pod of node 2 has no sample, and node 6 loses
its own after two and a half hours."""

import json
import math
import pathlib

FIRST = 1767225600  # 2026-01-01T00:00:00Z
STATES = 37
GAP_SECONDS = 300
NODES = 6
NODE_MIB = 8000
PODS_PER_NODE = 8
UNMEASURED_FROM = 30  # states: node 6

POLICIES = {
    "utilization.yaml": """compat: fixed
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: p
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {memory: 50}
      targetThresholds: {memory: 80}
      metricsUtilization: {source: KubernetesMetrics}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
""",
    # Moves by age, whether a pod is measured or not.
    "life-time.yaml": """maxNoOfPodsToEvictTotal: 1
profiles:
- name: p
  pluginConfig:
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 7200, namespaces: {include: [shop]}}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
""",
}


def node_name(node: int) -> str:
    return f"node-{node}"


def pod_mib(node: int, pod: int, state: int) -> int:
    wave = math.sin(2 * math.pi * (state / STATES + node / 2))
    heat = 260 * max(wave, 0) if node <= 2 else 0
    usual = 560 if node <= 2 else 340
    return round(usual + 30 * pod + heat + 20 * math.sin(state + pod))


def is_measured(node: int, pod: int) -> bool:
    return (node, pod) != (2, 0)


def objects(state: int) -> list[dict]:
    made = []
    for node in range(1, NODES + 1):
        made.append({"kind": "Node", "metadata": {"name": node_name(node)}, "status": {
            "allocatable": {"cpu": "8", "memory": f"{NODE_MIB}Mi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}})
        for pod in range(PODS_PER_NODE):
            made.append({
                "kind": "Pod",
                "metadata": {
                    "name": f"web-{node}-{pod}", "namespace": "shop", "uid": f"u-{node}-{pod}",
                    "creationTimestamp": f"2025-12-31T22:{(5 * node + pod) % 60:02}:00Z",
                    "ownerReferences": [{"kind": "ReplicaSet", "name": f"web-{node}-{pod}",
                                         "uid": f"rs-{node}-{pod}"}]},
                "spec": {"nodeName": node_name(node), "containers": [
                    {"name": "c", "resources": {"requests": {"memory": "500Mi"}}}]},
                "status": {"phase": "Running"}})
    return made


def samples(state: int) -> list[dict]:
    made = []
    for node in range(1, NODES + 1):
        used = [pod_mib(node, pod, state) for pod in range(PODS_PER_NODE)]
        if node < NODES or state < UNMEASURED_FROM:
            made.append({"kind": "NodeMetrics", "metadata": {"name": node_name(node)},
                         "usage": {"cpu": "2", "memory": f"{sum(used) + 400}Mi"}})
        made += [{"kind": "PodMetrics", "metadata": {"name": f"web-{node}-{pod}",
                                                     "namespace": "shop"},
                  "containers": [{"name": "c", "usage": {"cpu": "100m", "memory": f"{mib}Mi"}}]}
                 for pod, mib in enumerate(used) if is_measured(node, pod)]
    return made


def write(directory: pathlib.Path) -> None:
    """DIRECTORY/trace and a file for each of POLICIES."""
    trace = directory / "trace"
    trace.mkdir()
    for state in range(STATES):
        jitter = (0, 1, -1)[state % 3]
        name = str(FIRST + state * GAP_SECONDS + jitter)
        for suffix, items in (("", objects(state)), ("-metrics", samples(state))):
            text = json.dumps({"kind": "List", "items": items})
            (trace / f"{name}{suffix}.json").write_text(text)
    for name, text in POLICIES.items():
        (directory / name).write_text(text)
