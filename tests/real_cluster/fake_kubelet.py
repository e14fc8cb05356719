# SPDX-License-Identifier: Apache-2.0
"""Nodes without machines: their objects, their Leases, and pods that are reported as running.

No container runs. A pod that the scheduler binds to such a node becomes Running and Ready at once.
A pod that is deleted stays for its grace period, as one whose processes ignore SIGTERM."""

from __future__ import annotations

import datetime
import heapq
import threading
import time
from collections.abc import Callable

from lab import PATIENCE, Api, ApiError, is_ready
from object_watch import ObjectWatch

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MERGE = "application/strategic-merge-patch+json"
# Of all nodes, so that a test can select them.
LABEL = "forestall.test/fake"
LEASE_SECONDS, RENEW_SECONDS = 40, 10
NOT_FOUND, CONFLICT = 404, 409


def time_text(resolution: str = "seconds") -> str:
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    return now.isoformat(timespec=resolution) + "Z"


def pod_path(pod: dict) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def status_of(pod: dict, ready: bool) -> dict:
    now = time_text()
    conditions = [{"type": kind, "status": str(kind == "Initialized" or ready),
                   "lastTransitionTime": now}
                  for kind in ("Initialized", "Ready", "ContainersReady")]
    containers = [{"name": each["name"], "image": each["image"], "imageID": "", "ready": ready,
                   "restartCount": 0, "state": {"running": {"startedAt": now}}}
                  for each in pod["spec"]["containers"]]
    return {"phase": "Running", "startTime": now, "conditions": conditions,
            "containerStatuses": containers}


class FakeKubelet:
    """The kubelets of several nodes, in two threads: one follows the pods, the other one writes."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.nodes: set[str] = set()
        # Pods stay unready while it is cleared.
        self.makes_ready = True
        self.problem = ""
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._changed = threading.Condition()
        self._closed = False
        self._seen: dict[str, str] = {}  # UID to what is done about the pod
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()
        self.pods = ObjectWatch(api, PODS, self._see)

    def register(self, name: str, memory: str = "4Gi", **labels: str) -> None:
        """Returns when the scheduler may use the node."""
        size = {"cpu": "4", "memory": memory, "pods": "110", "ephemeral-storage": "10Gi"}
        self.api.call("POST", NODES, {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                LABEL: "yes", "kubernetes.io/hostname": name, **labels}},
            "status": {"capacity": size, "allocatable": size}})
        self.nodes.add(name)
        self.api.call("POST", LEASES, {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": self._lease(name)})
        self._beat(name)
        # The node lifecycle controller removes the taint of a node that is not ready.
        self.api.wait(NODES, lambda _, node: is_ready(node) and not node["spec"].get("taints"),
                      f"the scheduler may use {name}", fieldSelector=f"metadata.name={name}")

    def make_ready(self, pod: dict) -> None:
        """One of the pods that it kept unready."""
        self._schedule(0, lambda: self._run(pod, True))

    def close(self) -> None:
        """Removes the nodes, and what is left of their pods."""
        for name in self.nodes:
            self.api.call("DELETE", f"{NODES}/{name}")
            self.api.call("DELETE", f"{LEASES}/{name}")
        for pod in self.pods.now():
            if pod["spec"].get("nodeName") in self.nodes:
                self._remove(pod)
        self.pods.wait(lambda pods: not any(each["spec"].get("nodeName") in self.nodes
                                            for each in pods), "no pod of a removed node is left")
        self.pods.close()
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._writer.join()

    @staticmethod
    def _lease(name: str) -> dict:
        return {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": time_text("microseconds")}

    def _beat(self, name: str) -> None:
        if self._closed or name not in self.nodes:
            return
        self._patch(f"{LEASES}/{name}", {"spec": self._lease(name)})
        self._patch(f"{NODES}/{name}/status", {"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady",
             "lastHeartbeatTime": time_text()}]}})
        self._schedule(RENEW_SECONDS, lambda: self._beat(name))

    def _schedule(self, seconds: float, action: Callable[[], None]) -> None:
        with self._changed:
            self._count += 1
            heapq.heappush(self._due, (time.monotonic() + seconds, self._count, action))
            self._changed.notify()

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (
                        not self._due or self._due[0][0] > time.monotonic()):
                    self._changed.wait(
                        self._due[0][0] - time.monotonic() if self._due else PATIENCE)
                if self._closed:
                    return
                action = heapq.heappop(self._due)[2]
            try:
                action()
            except Exception as error:  # pylint: disable=broad-except
                self.problem = repr(error)
                raise

    def _see(self, kind: str, pod: dict) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._seen.pop(uid, None)
            return
        if pod["spec"].get("nodeName") not in self.nodes:
            return
        if "deletionTimestamp" in pod["metadata"]:
            if self._seen.get(uid) != "removes":
                self._seen[uid] = "removes"
                grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
                self._schedule(grace, lambda: self._remove(pod))
        elif uid not in self._seen:
            self._seen[uid] = "runs"
            self._schedule(0, lambda: self._run(pod, self.makes_ready))

    def _run(self, pod: dict, ready: bool) -> None:
        self._patch(f"{pod_path(pod)}/status", {"metadata": {"uid": pod["metadata"]["uid"]},
                                                "status": status_of(pod, ready)})

    def _remove(self, pod: dict) -> None:
        self._tolerant("DELETE", pod_path(pod), {
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]}}, "application/json")

    def _patch(self, path: str, body: dict) -> None:
        self._tolerant("PATCH", path, body, MERGE)

    def _tolerant(self, method: str, path: str, body: dict, kind: str) -> None:
        """The object may be gone, or another one may have its name."""
        try:
            self.api.call(method, path, body, kind)
        except ApiError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise
