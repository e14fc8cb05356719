# SPDX-License-Identifier: Apache-2.0
"""What the agent reports to the cluster: Events, condition, taint, NodeReport, kubectl plugin."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal

import fixture
from fixture import (AGENTS, CONDITION, NODES, PODS, TAINT, ClusterCase, agent_pod, begin,
                     container_pids, hog, pressure, report)
from lab import NODE, LabError, is_ready

REPORTS = "/apis/forestall.dev/v1alpha1/nodereports"


def value(quantity: str | int) -> int:
    """Bytes of a quantity of NodeReports."""
    units = {"Ki": 10, "Mi": 20, "Gi": 30}
    text = str(quantity)
    return int(text[:-2]) << units[text[-2:]] if text[-2:] in units else int(text)


class ReportTests(ClusterCase):
    def wait_node(self, holds, what: str, version: str = "") -> dict:
        """`version`: a state after it."""
        after = {"resourceVersion": version} if version else {}
        return fixture.lab.api.wait(NODES, lambda _, node: holds(node), what,
                                    fieldSelector=f"metadata.name={NODE}", **after)

    def release(self, name: str) -> None:
        """Takes the finalizer from the pod, if it exists."""
        with contextlib.suppress(LabError):
            fixture.lab.api.call("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}},
                                 "application/merge-patch+json")

    def check_description(self, name: str) -> None:
        """Of the node under pressure, and of the evicted pod, which still exists."""
        node = fixture.lab.kubectl("describe", "node", NODE)
        self.assertRegex(node, rf"{CONDITION} +True ")
        self.assertIn(f"{TAINT}:NoSchedule", node)
        self.wait_for(lambda: "Evicted" in fixture.lab.kubectl("describe", "pod", name),
                      f"an Event of {name}")
        pod = fixture.lab.kubectl("describe", "pod", name)
        self.assertRegex(pod, r"Warning +Evicted .* forestall.* +The node was low on resource: "
                              r"memory\. Threshold quantity: 256Mi, available: \d+Ki")
        report("of `kubectl describe pod`", re.search(r"Warning +Evicted.*", pod)[0])

    def check_no_disruption_target(self, name: str) -> None:
        """The condition is of API servers from 1.26 on. Without it nothing fails."""
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        self.assertIn("deletionTimestamp", pod["metadata"])
        self.assertNotIn("DisruptionTarget", [each["type"] for each in pod["status"]["conditions"]])
        log = fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "cluster")
        problems = [line for line in log.splitlines() if "event=pod-condition" in line]
        self.assertEqual(problems, [])

    def test_b_an_eviction_is_seen_by_kubectl(self) -> None:
        """Event, `kubectl describe`, `kubectl forestall`, condition and taint. The last two are
        removed when the transition period is over. A finalizer keeps the evicted pod for a while.
        """
        pod = hog("seen", 1600, 0, "wait")
        pod["metadata"]["finalizers"] = ["lab/seen"]
        self.create(pod)
        self.addCleanup(self.release, "seen")
        self.wait_until_known()
        self.assertIn("not evicted by Forestall", fixture.plugin("why", "seen"))
        uid = fixture.lab.api.get(f"{PODS}/seen")["metadata"]["uid"]
        self.press("seen")
        self.check_description("seen")
        top = json.loads(fixture.plugin("top", "nodes", "-o", "json"))["nodes"]
        self.assertEqual([(each["name"], each["guarded"], each["pressure"], each["tainted"])
                          for each in top], [(NODE, "yes", "True", True)])
        event = fixture.lab.api.wait(
            "/api/v1/namespaces/default/events", lambda *_: True, "an Event of the eviction",
            fieldSelector="involvedObject.name=seen,reason=Evicted,source=forestall")
        self.assertEqual(event["involvedObject"]["uid"], uid)
        self.assertIn("The node was low on resource: memory", event["message"])
        self.assertEqual(event["metadata"]["annotations"]["starved_resource"], "memory")
        why = json.loads(fixture.plugin("why", "seen", "-o", "json"))
        self.assertTrue(why["evicted"])
        events = json.loads(fixture.plugin("events", "-A", "-o", "json"))["events"]
        self.assertIn(("Evicted", "seen"), [(each["reason"], each["object"]["name"])
                                            for each in events])
        self.check_no_disruption_target("seen")
        self.release("seen")
        self.wait_node(lambda node: pressure(node) == ("False", False), "no pressure, no taint")

    def press(self, name: str) -> None:
        """Begins the leak of the pod, and waits until it is killed and the node has pressure. The
        pressure alone can be an earlier leak's, if the API server refused its condition then."""
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        self.wait_node(lambda node: pressure(node)[0] != "True", "no pressure of an earlier leak")
        version = fixture.lab.api.get(f"{NODES}/{NODE}")["metadata"]["resourceVersion"]
        with self.exits(container_pids(pod)[0], f"{name} is killed"):
            begin(pod)
        self.wait_node(lambda node: pressure(node) == ("True", True), "pressure, with the taint",
                       version)

    def press_with(self, name: str) -> None:
        self.create(hog(name, 1600, 0, "wait"))
        self.wait_until_known()
        self.press(name)

    def test_b2_pressure_stays_while_the_pod_is_replaced(self) -> None:
        """The condition and the taint are left to the next pod, which takes them over. Only that
        one may remove them."""
        self.press_with("before-rollout")
        old = agent_pod()
        version = fixture.lab.api.get(NODES)["metadata"]["resourceVersion"]
        fixture.lab.api.call("DELETE", f"{AGENTS}/{old['metadata']['name']}")
        states = []

        def is_over(node: dict) -> bool:
            states.append(pressure(node))
            return states[-1] != ("True", True)
        fixture.lab.api.wait(
            NODES, lambda _, each: is_over(each), "the next pod ends the pressure",
            patience=150, fieldSelector=f"metadata.name={NODE}", resourceVersion=version)
        new = agent_pod()
        self.assertNotEqual(new["metadata"]["uid"], old["metadata"]["uid"], states)
        self.assertTrue(container_pids(new, "cluster"), "the next process has removed it")
        self.assertNotEqual(states[-1][0], "", "the condition is never missing")
        self.wait_node(lambda node: pressure(node) == ("False", False), "no pressure, no taint")
        fixture.lab.api.wait(AGENTS, lambda _, each: is_ready(each), "the agent is ready")
        self.wait_until_known()

    def test_z_a_removed_daemon_set_leaves_no_taint(self) -> None:
        self.press_with("before-removal")
        fixture.lab.kubectl("-n", "forestall", "delete", "ds/forestall")
        self.wait_node(lambda node: pressure(node) == ("", False), "no condition, no taint")
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)

    def test_c_kubectl_ranks_the_pods_of_the_node(self) -> None:
        self.create(hog("light", 1, 0))
        self.create(hog("heavy", 300, 0))
        self.wait_until_known()
        fixture.wait_for_usage("heavy", 300 << 20)
        ranked = fixture.plugin("rank", NODE)
        self.assertLess(ranked.index("default/heavy"), ranked.index("default/light"), ranked)

    def test_d_the_report_of_the_node_is_published(self) -> None:
        """By server-side apply, with the node as its owner."""
        self.create(hog("counted", 200, 0))
        found = fixture.lab.api.wait(
            REPORTS, lambda _, each: "usage" in each["status"]["memory"] and "counted" in [
                pod["name"] for pod in each["status"].get("pods", [])
                if value(pod["workingSet"]) >= 200 << 20], "a report with the pod")
        self.assertEqual(found["metadata"]["name"], NODE)
        node = fixture.lab.api.get(f"{NODES}/{NODE}")
        self.assertEqual([each["uid"] for each in found["metadata"]["ownerReferences"]],
                         [node["metadata"]["uid"]])
        status = found["status"]
        self.assertGreater(value(status["memory"]["usage"]), 200 << 20)
        self.assertGreater(value(status["memory"]["workingSet"]), 200 << 20)
        self.assertEqual(["memory.available"], [each["signal"] for each in status["thresholds"]])
        self.assertRegex(fixture.lab.kubectl("get", "nodereports"), NODE + r" +[0-9.]+[MG]i ")
        report("size of the report", f"{len(json.dumps(found))} bytes")

    def test_e_a_node_without_an_agent_is_unguarded(self) -> None:
        """`forestall cluster` reports an agent that does not answer for 20 s, and its return."""
        pids = container_pids(agent_pod(), "agent")
        unguarded = lambda node: "forestall.dev/unguarded" in node["metadata"]["annotations"]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            self.wait_node(unguarded, "the annotation")
            node = json.loads(fixture.plugin("top", "nodes", "-o", "json"))["nodes"][0]
            self.assertEqual(node["guarded"], "no")
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        self.wait_node(lambda node: not unguarded(node), "no annotation")
        fixture.lab.api.wait(AGENTS, lambda _, each: is_ready(each), "the agent is ready")
