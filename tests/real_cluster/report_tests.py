# SPDX-License-Identifier: Apache-2.0
"""What the agent reports to the cluster: Events, condition, taint, NodeReport, kubectl plugin."""

from __future__ import annotations

import json
import os
import signal

import fixture
from fixture import (AGENTS, NODES, PODS, ClusterCase, agent_pod, begin,
                     container_pids, hog, report)
from lab import NODE, is_ready

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

    def test_b_an_eviction_is_seen_by_kubectl(self) -> None:
        """As an Event, and by `kubectl forestall`."""
        self.create(hog("seen", 1600, 0, "wait"))
        self.wait_until_known()
        self.assertIn("not evicted by Forestall", fixture.plugin("why", "seen"))
        pod = self.evicted("seen", lambda: begin(fixture.lab.api.get(f"{PODS}/seen")))
        event = fixture.lab.api.wait(
            "/api/v1/namespaces/default/events", lambda *_: True, "an Event of the eviction",
            fieldSelector="involvedObject.name=seen,reason=Evicted,source=forestall")
        self.assertEqual(event["involvedObject"]["uid"], pod["metadata"]["uid"])
        self.assertIn("The node was low on resource: memory", event["message"])
        self.assertEqual(event["metadata"]["annotations"]["starved_resource"], "memory")
        why = json.loads(fixture.plugin("why", "seen", "-o", "json"))
        self.assertTrue(why["evicted"])
        self.assertFalse(why["exists"])
        events = json.loads(fixture.plugin("events", "-A", "-o", "json"))["events"]
        self.assertIn(("Evicted", "seen"), [(each["reason"], each["object"]["name"])
                                            for each in events])
        top = json.loads(fixture.plugin("top", "nodes", "-o", "json"))["nodes"]
        self.assertEqual([(each["name"], each["guarded"]) for each in top], [(NODE, "yes")])

    def test_c_kubectl_ranks_the_pods_of_the_node(self) -> None:
        self.create(hog("light", 1, 0))
        self.create(hog("heavy", 300, 0))
        self.wait_until_known()
        self.wait_for_usage("heavy", 300 << 20)
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
        self.assertIn(NODE, fixture.lab.kubectl("get", "nodereports"))
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
