# SPDX-License-Identifier: Apache-2.0
"""What the tests of `forestall rebalance` on nodes of a fake kubelet share: nodes, workloads, and
what the API server recorded of their pods."""

from __future__ import annotations

import collections
import json
import os
import threading
from collections.abc import Iterable

import fixture
from fake_kubelet import LABEL, FakeKubelet, time_text
from fixture import MANIFESTS, PODS, ClusterCase
from lab import is_ready
from object_watch import ObjectWatch
from rebalancer import Rebalancer, rebalancer
from request_proxy import RequestProxy

SETS = "/apis/apps/v1/namespaces/default/replicasets"
BUDGETS = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
REPORTS = "/apis/forestall.dev/v1alpha1/nodereports"
MIB = 1 << 20
# What each pod of a report uses, in MiB.
POD_REPORTED = 256
CREATED = 201
# What decides on an eviction, as the log has it.
PLANNED = ("pod", "uid", "node", "plugin", "reason", "destination")


def policy_text(plugin: str, arguments: str, point: str, *, labels: str = "", **top: object) -> str:
    """Of one plugin, for the nodes of the fake kubelet. `labels`: of pods that it may evict."""
    lines = [f"{name}: {value}" for name, value in top.items()]
    evictor = f"{{labelSelector: {{matchLabels: {{app: {labels}}}}}}}" if labels \
        else "{nodeFit: true}"
    return "\n".join([
        "apiVersion: descheduler/v1alpha2", "kind: DeschedulerPolicy",
        f"nodeSelector: {LABEL}=yes", *lines, "profiles:", "- name: test", "  pluginConfig:",
        f"  - {{name: DefaultEvictor, args: {evictor}}}",
        f"  - {{name: {plugin}, args: {arguments}}}",
        f"  plugins: {{{point}: {{enabled: [{plugin}]}}}}", ""])


def name_of(pod: dict) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def is_available(pod: dict) -> bool:
    """As the disruption controller counts it."""
    return is_ready(pod) and "deletionTimestamp" not in pod["metadata"]


def node_of(pod: dict) -> str:
    return pod["spec"].get("nodeName", "")


class PodHistory:
    """What each event of the watch makes of the pods of each workload."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, dict]] = collections.defaultdict(dict)  # by workload, UID
        self.least: dict[str, int] = {}  # available pods, of those that are observed
        self._left: list[str] = []  # names, in the order in which they were deleted
        self._deleted: set[str] = set()
        self._lock = threading.Lock()

    def see(self, kind: str, pod: dict) -> None:
        app, uid = pod["metadata"]["labels"]["app"], pod["metadata"]["uid"]
        with self._lock:
            if kind == "DELETED":
                self.pods[app].pop(uid, None)
            else:
                self.pods[app][uid] = pod
            if uid not in self._deleted and (kind == "DELETED"
                                             or "deletionTimestamp" in pod["metadata"]):
                self._deleted.add(uid)
                self._left.append(name_of(pod))
            if app in self.least:
                self.least[app] = min(self.least[app], self._available(app))

    def observe(self, app: str) -> None:
        """From now on `least` has the fewest pods of the workload that were available at once."""
        with self._lock:
            self.least[app] = self._available(app)

    def forget_left(self) -> None:
        with self._lock:
            self._left.clear()

    def left_now(self) -> list[str]:
        """Pods that were deleted since the last call of forget_left(), in their order."""
        with self._lock:
            return list(self._left)

    def _available(self, app: str) -> int:
        return sum(map(is_available, self.pods[app].values()))


class Audit:
    """Requests of the rebalancer that the API server has answered since the last call of begin().
    It writes each one before it answers."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._passed = sum(1 for _ in fixture.lab.audit())

    def requests(self) -> list[dict]:
        return list(fixture.lab.audit())[self._passed:]

    def evicted(self) -> list[str]:
        """Pods of accepted evictions, in their order."""
        return [f"{each['objectRef']['namespace']}/{each['objectRef']['name']}"
                for each in self.requests()
                if each["user"]["username"].endswith(":forestall-rebalance")
                and each["objectRef"].get("subresource") == "eviction"
                and each["verb"] == "create"
                and each.get("responseStatus", {}).get("code") == CREATED]


class MoveCase(ClusterCase):
    kubelet: FakeKubelet
    watch: ObjectWatch
    history: PodHistory
    audit: Audit

    def apply_manifests(self, replicas: int) -> None:
        """Of the rebalancer."""
        lab = fixture.lab
        lab.kubectl("apply", "-f", MANIFESTS / "base/namespace.yaml")
        lab.kubectl("apply", "-k", MANIFESTS / "crd")
        folder = lab.folder / "rebalancer"
        folder.mkdir(exist_ok=True)
        base = os.path.relpath(MANIFESTS / "rebalancer", folder.resolve())
        (folder / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "namespace": "forestall", "resources": [base],
            "replicas": [{"name": "forestall-rebalance", "count": replicas}]}))
        lab.kubectl("apply", "-k", folder)

    def begin_moves(self) -> None:
        self.apply_manifests(0)
        self.kubelet = FakeKubelet(fixture.lab.api)
        self.addCleanup(self.end_moves)
        self.history = PodHistory()
        self.watch = ObjectWatch(fixture.lab.api, PODS, self.history.see, labelSelector="app")
        self.addCleanup(self.watch.close)
        self.audit = Audit()

    def begin_faults(self) -> RequestProxy:
        self.begin_moves()
        proxy = RequestProxy(fixture.lab)
        self.addCleanup(proxy.close)
        return proxy

    def end_moves(self) -> None:
        self.kubelet.close()
        self.assertEqual(self.kubelet.problem, "")

    def create_set(self, app: str, replicas: int, memory: str = "512Mi", grace: int = 0,
                   **spec: object) -> None:
        """Pods of a ReplicaSet, of which all are ready at the end."""
        container = {"name": "c", "image": "localhost/none:1",
                     "resources": {"requests": {"memory": memory, "cpu": "10m"}}}
        labels = {"app": app}
        fixture.lab.api.call("POST", SETS, {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": app},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": grace, "containers": [container],
                         "nodeSelector": {LABEL: "yes"}, **spec}}}})
        self.addCleanup(self.delete_set, app)
        self.wait_until_ready(app, replicas)

    def delete_set(self, app: str) -> None:
        fixture.lab.api.call("DELETE", f"{SETS}/{app}", {
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
        self.watch.wait(lambda pods: not of(pods, app), f"the pods of {app} are gone")

    def create_budget(self, app: str, available: int, allowed: int) -> None:
        fixture.lab.api.call("POST", BUDGETS, {
            "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": app}, "spec": {"minAvailable": available,
                                                "selector": {"matchLabels": {"app": app}}}})
        self.addCleanup(fixture.lab.api.call, "DELETE", f"{BUDGETS}/{app}")
        self.wait_for_allowed(app, allowed)

    def wait_for_allowed(self, app: str, allowed: int) -> None:
        fixture.lab.api.wait(
            BUDGETS, lambda _, each: each.get("status", {}).get("disruptionsAllowed") == allowed,
            f"the budget of {app} permits {allowed} evictions",
            fieldSelector=f"metadata.name={app}")

    def wait_until_ready(self, app: str, count: int) -> list[dict]:
        """`count` pods are ready, and there is no other one."""
        pods = self.watch.wait(
            lambda pods: len(of(pods, app)) == count and all(map(is_available, of(pods, app))),
            f"{count} pods of {app} are ready")
        return of(pods, app)

    def wait_for_pods_on(self, node: str, app: str, count: int) -> None:
        self.watch.wait(lambda pods: sum(node_of(each) == node for each in of(pods, app)) == count,
                        f"{count} pods of {app} are on {node}")

    def pods_on(self, node: str, app: str) -> int:
        return sum(node_of(each) == node for each in of(self.watch.now(), app))

    def write_report(self, node: str, headroom: int, growth: int, pods: dict[str, int]) -> None:
        """`pods`: those of `app` with their growth, in MiB/s."""
        threshold = {"signal": "memory.available", "headroom": headroom * MIB,
                     "growthPerSecond": growth * MIB}
        if growth > 0:
            threshold["secondsToCrossing"] = headroom / growth
        listed = [{"namespace": each["metadata"]["namespace"], "name": each["metadata"]["name"],
                   "uid": each["metadata"]["uid"], "workingSet": POD_REPORTED * MIB,
                   "growthPerSecond": pods.get(each["metadata"]["labels"]["app"], 0) * MIB}
                  for each in self.watch.now() if node_of(each) == node]
        body = {"apiVersion": "forestall.dev/v1alpha1", "kind": "NodeReport",
                "metadata": {"name": node}, "status": {
                    "time": time_text("microseconds"),
                    "memory": {"capacity": 4096 * MIB, "workingSet": (4096 - headroom) * MIB},
                    "memoryStallPercent": {"some": 0, "full": 0},
                    "thresholds": [threshold], "pods": listed}}
        path = f"{REPORTS}/{node}?fieldManager=test&force=true"
        fixture.lab.api.call("PATCH", path, body, "application/apply-patch+yaml")

    def begin_record(self) -> None:
        self.audit.begin()
        self.history.forget_left()

    def check_record(self, *logs: Rebalancer) -> list[str]:
        """What the logs have of evictions is what the API server accepted since begin_record(), and
        no other pod left; each of them left once. The pods that were evicted."""
        evicted = self.audit.evicted()
        self.watch.wait(lambda _: len(self.history.left_now()) >= len(evicted), "they leave")
        self.assertCountEqual(self.history.left_now(), evicted)
        self.assertEqual(len(evicted), len(set(evicted)), "evicted twice")
        by_state = collections.defaultdict(set)
        for log in logs:
            for pod, state in log.evictions().items():
                by_state[state].add(pod)
        self.assertLessEqual(by_state["evicted"], set(evicted))
        self.assertLessEqual(set(evicted), by_state["evicted"] | by_state["unknown"])
        return evicted

    def run_once(self, policy: str, *options: str, code: int = 0, **more: str) -> Rebalancer:
        with rebalancer(*options, policy=policy, **more) as log:
            self.assertEqual(log.end(), code, log.lines)
            return log

    def plan_and_run(self, policy: str) -> list[dict[str, str]]:
        """The real run does what the dry run shows; what both have planned."""
        self.begin_record()
        before = {name_of(each) for each in self.watch.now()}
        planned = planned_by(self.run_once(policy, "--dry-run"), "dry-run")
        self.assertEqual(self.audit.evicted(), [])
        self.assertEqual({name_of(each) for each in self.watch.now()}, before)
        log = self.run_once(policy)
        self.assertEqual(planned_by(log, "evicted"), planned, log.lines)
        self.assertEqual(self.check_record(log), [each["pod"] for each in planned])
        return planned


def of(pods: Iterable[dict], app: str) -> list[dict]:
    return [each for each in pods if each["metadata"]["labels"]["app"] == app]


def planned_by(log: Rebalancer, *states: str) -> list[dict[str, str]]:
    return [{name: each.get(name, "") for name in PLANNED} for each in log.events("eviction")
            if each["state"] in states]
