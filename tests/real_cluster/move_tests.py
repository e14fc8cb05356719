# SPDX-License-Identifier: Apache-2.0
"""`forestall rebalance` on nodes of a fake kubelet, with the real scheduler and controllers: hot
nodes, drained nodes and disruption budgets."""

from __future__ import annotations

import fixture
from lab import PATIENCE
from move_fixture import REPORTS, MoveCase, name_of, node_of, of, planned_by, policy_text
from rebalancer import Rebalancer, rebalancer

LOW = policy_text("LowNodeUtilization",
                  "{thresholds: {memory: 30}, targetThresholds: {memory: 60}}", "balance",
                  compat="fixed")
LOW_UPSTREAM = LOW.replace("compat: fixed", "compat: upstream")
PRESSURE = policy_text("NodePressure", "{consecutiveReports: 1}", "balance", compat="fixed")
TAINTS = policy_text("RemovePodsViolatingNodeTaints", "{}", "deschedule", compat="fixed")
# Of these tests: a plan at least once a second.
EVERY_SECOND = "--descheduling-interval=1s"


class MoveTests(MoveCase):
    def check_hot_node(self, policy: str) -> None:
        """Seven pods of 512 MiB use 87 % of 4 GiB: three leave."""
        self.kubelet.register("hot")
        self.create_set("busy", 7)
        self.kubelet.register("cold1")
        self.kubelet.register("cold2")
        planned = self.plan_and_run(policy)
        self.assertEqual([each["node"] for each in planned], ["hot"] * 3)
        self.wait_until_ready("busy", 7)
        self.assertEqual(self.pods_on("hot", "busy"), 4)
        again = self.run_once(policy)
        self.assertEqual(again.events("eviction"), [])

    def test_h1_a_hot_node_is_relieved_by_requests(self) -> None:
        self.begin_moves()
        self.check_hot_node(LOW)

    def test_h2_a_hot_node_is_relieved_as_by_the_descheduler(self) -> None:
        self.begin_moves()
        self.check_hot_node(LOW_UPSTREAM)

    def test_h3_a_node_that_will_be_short_loses_the_pod_that_grows(self) -> None:
        """By its report 300 MiB are left, and 1 MiB/s of them goes."""
        self.begin_moves()
        self.kubelet.register("short")
        self.create_set("steady", 3)
        self.create_set("leaker", 1)
        self.kubelet.register("wide")
        self.kubelet.register("silent")
        for node in ("short", "wide"):
            self.addCleanup(fixture.lab.api.call, "DELETE", f"{REPORTS}/{node}")
        self.write_report("short", 300, 1, {"leaker": 1})
        self.write_report("wide", 3500, 0, {})
        self.begin_record()
        with rebalancer(EVERY_SECOND, "--dry-run", policy=PRESSURE) as dry:
            dry.wait(r"event=plan evictions=1\b")
            dry.wait(r"event=eviction .*state=dry-run")
            planned = planned_by(dry, "dry-run")[:1]
        leaker, = of(self.watch.now(), "leaker")
        self.assertEqual([(each["pod"], each["destination"]) for each in planned],
                         [(name_of(leaker), "wide")], dry.lines)
        self.assertEqual(self.audit.evicted(), [])
        with rebalancer(EVERY_SECOND, policy=PRESSURE) as log:
            first = log.wait(r"event=eviction .*state=evicted")
            self.wait_until_ready("leaker", 1)
            # The report is that of before: what left counts as gone from the node.
            log.wait(r"event=plan ", log.wait(r"event=plan ", first))
            self.write_report("short", 600, 0, {})
            log.wait(r"event=plan ", log.wait(r"event=plan ", log.mark()))
            self.assertEqual(planned_by(log, "evicted"), planned)
            self.assertEqual(self.check_record(log), [name_of(leaker)])
            self.assertEqual(set(each["state"] for each in log.events("eviction")), {"evicted"})

    def test_h4_a_drained_node_empties_and_its_budget_holds(self) -> None:
        """Four pods of which two must be available, on a node that is cordoned. Those in their
        place become ready one after the other."""
        self.begin_moves()
        self.kubelet.register("drained")
        self.create_set("web", 4, grace=1)
        fixture.lab.api.call("POST", "/api/v1/namespaces/default/pods", {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "labels": {
                "app": "bare"}}, "spec": {"nodeName": "drained", "containers": [
                    {"name": "c", "image": "localhost/none:1"}]}})
        self.create_budget("web", 2, 2)
        self.kubelet.register("target")
        self.kubelet.makes_ready = False
        self.history.observe("web")
        self.begin_record()
        with rebalancer(EVERY_SECOND, policy=TAINTS) as log:
            self.wait_for_plan_after_second_of(log, of(self.watch.now(), "web"))
            fixture.lab.kubectl("cordon", "drained")
            for left in (2, 1, 0):
                self.wait_for_pods_on("drained", "web", left)
                waiting = self.unready_on_target(2)
                # The second plan is of this state: no further pod may go.
                log.wait(r"event=plan ", log.wait(r"event=plan ", log.mark()))
                self.assertEqual(self.pods_on("drained", "web"), left)
                self.kubelet.make_ready(waiting[0])
            self.kubelet.makes_ready = True
            self.kubelet.make_ready(self.unready_on_target(1)[0])
            self.wait_until_ready("web", 4)
            log.wait(r"event=plan evictions=0", log.mark())
            self.check_record(log)
        self.assertEqual(len(self.audit.evicted()), 4)
        self.assertEqual(self.history.least["web"], 2)
        self.assertEqual(self.pods_on("target", "web"), 4)
        self.assertEqual(self.pods_on("drained", "bare"), 1)

    @staticmethod
    def wait_for_plan_after_second_of(log: Rebalancer, pods: list[dict]) -> None:
        """A pod that was created in the same second as a plan may be a replacement of a pod that
        this plan moved."""
        second = max(each["metadata"]["creationTimestamp"] for each in pods).rstrip("Z")
        index = log.wait(r"event=plan ")
        while log.lines[index - 1][:len(second)] <= second:
            index = log.wait(r"event=plan ", index)

    def unready_on_target(self, count: int) -> list[dict]:
        def unready(pods: list[dict]) -> list[dict]:
            return [each for each in of(pods, "web") if node_of(each) == "target"
                    and each["status"].get("phase") == "Running"
                    and not fixture.is_ready(each)]
        pods = self.watch.wait(lambda pods: len(unready(pods)) == count,
                               f"{count} pods wait to become ready", PATIENCE)
        return unready(pods)
