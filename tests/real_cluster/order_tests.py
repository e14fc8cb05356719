# SPDX-License-Identifier: Apache-2.0
"""Which pods die, and in which order, by what the API server has of them. A critical pod grows: it
is no candidate, so each crossing costs another pod its life."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import select

import fixture
from fixture import (NODES, PODS, THRESHOLD, ClusterCase, begin, container_pids, hog,
                     process_status, report, restarts)
from lab import NODE

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CRITICAL = "system-node-critical"
# Pods above their request, in the first of these tests.
ABOVE = 3
# The kubelet compares with its thresholds once in this time.
KUBELET_SECONDS = 10


def with_memory(pod: dict, **resources: dict) -> dict:
    pod["spec"]["containers"][0]["resources"] = resources
    return pod


class OrderTests(ClusterCase):
    def create_class(self, name: str, value: int) -> None:
        fixture.lab.api.call("POST", PRIORITY_CLASSES, {
            "metadata": {"name": name}, "value": value, "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass"})
        self.addCleanup(fixture.lab.api.call, "DELETE", f"{PRIORITY_CLASSES}/{name}")

    def filled(self, pod: dict, size: int) -> int:
        """The process of the pod, which runs and has filled `size` MiB."""
        pid = container_pids(fixture.lab.api.get(f"{PODS}/{self.create(pod)}"))[0]
        self.wait_until_filled(pid, size)
        return pid

    def wait_until_filled(self, pid: int, size: int) -> None:
        self.wait_for(lambda: int(process_status(pid)["VmRSS"].split()[0]) >= size << 10,
                      f"process {pid} has {size} MiB")

    def grown(self, size: int, names: dict[str, int], count: int) -> list[str]:
        """A critical pod grows to `size` MiB, 100 MiB each second. The pods of `names`, with their
        processes, in the order of their ends, when `count` have ended and it has grown."""
        self.create(hog("critical", size, 10, "wait", priorityClassName=CRITICAL))
        self.wait_until_known()
        kills = len(self.delays())
        grower = fixture.lab.api.get(f"{PODS}/critical")
        ended: list[str] = []
        with contextlib.ExitStack() as files:
            pidfds = {os.pidfd_open(pid): name for name, pid in names.items()}
            for each in pidfds:
                files.callback(os.close, each)
            begin(grower)
            while len(ended) < count:
                ready = select.select(list(pidfds), [], [], 60)[0]
                self.assertTrue(ready, f"only {ended} have ended")
                ended += [pidfds.pop(each) for each in ready]
            self.wait_until_filled(container_pids(grower)[0], size)
            late = select.select(list(pidfds), [], [], 0)[0] if pidfds else []
            ended += [pidfds[each] for each in late]
        self.assertEqual(len(self.delays()), kills + count, "kills of the agent")
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
        after = fixture.lab.api.get(f"{PODS}/critical")
        self.assertEqual((container_pids(after), restarts(after)), (container_pids(grower), 0))
        return ended

    def static_pod(self, name: str, size: int) -> tuple[str, int]:
        """Name of its mirror pod, and its process, which has filled `size` MiB. It is removed after
        the test."""
        file = fixture.lab.static_pods / f"{name}.json"
        pod = hog(name, size, 0)
        pod["metadata"]["namespace"] = "default"
        file.write_text(json.dumps(pod))
        mirror = f"{name}-{NODE}"
        self.addCleanup(self.remove_static_pod, file, mirror)
        made = self.wait(mirror, lambda each: each["status"].get("phase") == "Running", "it runs")
        pid = container_pids(made)[0]
        self.wait_until_filled(pid, size)
        return mirror, pid

    def remove_static_pod(self, file: pathlib.Path, mirror: str) -> None:
        version = fixture.lab.api.get(PODS)["metadata"]["resourceVersion"]
        file.unlink()
        fixture.lab.api.wait(PODS, lambda event, _: event == "DELETED", f"{mirror} is gone",
                             fieldSelector=f"metadata.name={mirror}", resourceVersion=version)

    def test_5b_pods_of_all_classes_die_in_the_order_of_their_facts(self) -> None:
        """First those above their request; of these by priority, then by what they use above it.
        The class of a pod does not matter. Static and critical pods are no candidates. Pods within
        their request live, because enough is free without them."""
        self.create_class("weighty", 500)
        mirror, static = self.static_pod("static", 150)
        pids = {
            "burstable-above": self.filled(with_memory(
                hog("burstable-above", 250, 0, restartPolicy="Never"),
                requests={"memory": "50Mi"}), 250),
            "besteffort": self.filled(hog("besteffort", 100, 0, restartPolicy="Never"), 100),
            "besteffort-weighty": self.filled(hog(
                "besteffort-weighty", 150, 0, restartPolicy="Never",
                priorityClassName="weighty"), 150),
            "guaranteed": self.filled(with_memory(
                hog("guaranteed", 200, 0, restartPolicy="Never"),
                limits={"memory": "250Mi", "cpu": "200m"}), 200),
            "burstable-below": self.filled(with_memory(
                hog("burstable-below", 200, 0, restartPolicy="Never"),
                requests={"memory": "300Mi"}), 200)}
        classes = {name: fixture.lab.api.get(f"{PODS}/{name}")["status"]["qosClass"]
                   for name in pids}
        self.assertEqual(set(classes.values()), {"BestEffort", "Burstable", "Guaranteed"})
        order = self.grown(640, pids, ABOVE)
        report("order of the kills", " ".join(order))
        self.assertEqual(order, list(pids)[:ABOVE])
        self.assertEqual(container_pids(fixture.lab.api.get(f"{PODS}/{mirror}")), [static])

    def test_5c_a_pod_made_again_is_ranked_by_its_new_priority_and_request(self) -> None:
        """A request cannot change in a pod of Kubernetes 1.20, nor can a priority in any."""
        self.create_class("weighty", 500)
        important = {"restartPolicy": "Never", "priorityClassName": "weighty"}
        self.filled(with_memory(hog("changed", 300, 0, **important),
                                requests={"memory": "400Mi"}), 300)
        steady = self.filled(hog("steady", 200, 0, restartPolicy="Never"), 200)
        self.wait_until_known()
        self.delete("changed")
        changed = self.filled(hog("changed", 300, 0, restartPolicy="Never"), 300)
        self.assertEqual(self.grown(850, {"changed": changed, "steady": steady}, 1), ["changed"])
        # The API shows the deletion before its process has ended.
        with self.exits(container_pids(fixture.lab.api.get(f"{PODS}/critical"))[0], "it ends"):
            self.delete("critical")
        self.delete("changed")
        changed = self.filled(hog("changed", 300, 0, **important), 300)
        self.assertEqual(self.grown(850, {"changed": changed, "steady": steady}, 1), ["steady"])

    def use_kubelet_threshold(self, threshold: str) -> None:
        fixture.lab.kubelet_threshold = threshold
        fixture.lab.services["kubelet"].stop()
        fixture.lab.start_kubelet()

    def heartbeat(self, node: dict) -> datetime.datetime:
        """When the kubelet wrote its conditions last."""
        text = next(each["lastHeartbeatTime"] for each in node["status"]["conditions"]
                    if each["type"] == "MemoryPressure")
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))

    def test_5d_the_kubelet_with_the_same_threshold_evicts_no_second_pod(self) -> None:
        old = fixture.lab.kubelet_threshold
        self.addCleanup(self.use_kubelet_threshold, old)
        self.use_kubelet_threshold(THRESHOLD)
        bystander = self.filled(hog("bystander", 400, 0), 400)
        self.create(hog("leaker", 1200, 50, "wait", 800))
        self.wait_until_known()
        kills = len(self.delays())
        self.evicted("leaker", lambda: begin(fixture.lab.api.get(f"{PODS}/leaker")))
        node = fixture.lab.api.get(f"{NODES}/{NODE}")
        later = self.heartbeat(node) + datetime.timedelta(seconds=KUBELET_SECONDS)
        fixture.lab.api.wait(NODES, lambda _, each: self.heartbeat(each) > later,
                             "the kubelet has compared again",
                             fieldSelector=f"metadata.name={NODE}")
        self.assert_prompt(kills + 1, "the same threshold as the kubelet's")
        pod = fixture.lab.api.get(f"{PODS}/bystander")
        self.assertEqual((container_pids(pod), restarts(pod)), ([bystander], 0))
        self.assertNotIn("deletionTimestamp", pod["metadata"])
