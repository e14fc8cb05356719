# SPDX-License-Identifier: Apache-2.0
"""A dry run of `forestall rebalance` shows which pods leave, and where the scheduler binds the pods
in their place. Each workload may only run on the hot node and on one other node."""

from __future__ import annotations

import collections

import fixture
from measured_fault_tests import PLAN, SERIES
from move_fixture import REPORTS, MoveCase, planned_by
from move_tests import EVERY_SECOND, LOW
from rebalancer import Rebalancer, rebalancer

# By workload: the node besides the hot one.
OTHERS = {"left": "cold-left", "right": "cold-right"}


def only_on(*nodes: str) -> dict:
    term = {"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}
    return {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


class DryRunTests(MoveCase):
    def begin_hot(self, replicas: dict[str, int], left_available: int) -> None:
        """One pod of the workload `left` may be away."""
        self.begin_moves()
        self.kubelet.register("hot")
        for app, count in replicas.items():
            self.create_set(app, count, affinity=only_on("hot", OTHERS[app]))
        self.create_budget("left", left_available, 1)
        for node in OTHERS.values():
            self.kubelet.register(node)

    def check_places(self, planned: list[dict[str, str]], replicas: dict[str, int]) -> None:
        """The pods are where the plan has them."""
        moved = collections.Counter(each["pod"].split("/")[1].split("-")[0] for each in planned)
        self.assertEqual(moved["left"], 1, "as its budget permits")
        for app, count in replicas.items():
            self.wait_until_ready(app, count)
            destinations = collections.Counter(
                each["destination"] for each in planned if each["pod"].startswith(f"default/{app}"))
            self.assertEqual(destinations, {OTHERS[app]: moved[app]})
            self.assertEqual(self.pods_on(OTHERS[app], app), moved[app])
            self.assertEqual(self.pods_on("hot", app), count - moved[app])

    def test_hk_the_pods_land_where_the_dry_run_has_them_by_requests(self) -> None:
        """Seven pods of 512 MiB use 87 % of 4 GiB: three leave."""
        replicas = {"left": 4, "right": 3}
        self.begin_hot(replicas, 3)
        planned = self.plan_and_run(LOW)
        self.assertEqual(len(planned), 3)
        self.check_places(planned, replicas)

    def pressure_plan(self, *options: str) -> tuple[Rebalancer, list[dict[str, str]]]:
        """Of a process that ends when its plan is carried out."""
        with rebalancer(EVERY_SECOND, *options, policy=SERIES) as log:
            begun = log.wait(PLAN + "2") - 1
            for _ in range(2):
                begun = log.wait(r"event=eviction .*state=(dry-run|evicted)", begun)
            return log, planned_by(log, "dry-run", "evicted")[:2]

    def test_hl_the_pods_land_where_the_dry_run_has_them_by_reports(self) -> None:
        """Of four pods that grow two leave."""
        replicas = {"left": 2, "right": 2}
        self.begin_hot(replicas, 1)
        for node in ("hot", *OTHERS.values()):
            self.addCleanup(fixture.lab.api.call, "DELETE", f"{REPORTS}/{node}")
            short = node == "hot"
            self.write_report(node, 50 if short else 3500, 4 if short else 0,
                              {"left": 1, "right": 1})
        self.begin_record()
        _, shown = self.pressure_plan("--dry-run")
        self.assertEqual(self.audit.evicted(), [])
        log, planned = self.pressure_plan()
        self.assertEqual(planned, shown)
        self.check_places(planned, replicas)
        self.assertEqual(self.check_record(log), [each["pod"] for each in planned])
