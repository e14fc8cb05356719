# SPDX-License-Identifier: Apache-2.0
"""`forestall rebalance` by measured usage, while the API server does not serve the measurements."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable

import fixture
from fixture import PODS, report
from lab import PATIENCE
from move_fault_tests import ALL, ELECTION, EVICTION
from move_fixture import POD_REPORTED, REPORTS, MoveCase, node_of, of, policy_text
from move_tests import EVERY_SECOND, PRESSURE
from proxy import answer, failure
from rebalancer import Rebalancer, fields_of, rebalancer
from request_proxy import SERVER, RequestProxy, Rule

Treat = Callable[[ssl.SSLSocket, bytes], None]
REPORTS_LIST = f"GET {REPORTS}?"
METRICS = "GET /apis/metrics.k8s.io/v1beta1/"
NODE_METRICS, POD_METRICS = f"{METRICS}nodes?", f"{METRICS}pods?"
PLAN = r"event=plan evictions="
# Each pod of the hot node uses it: three of them are 75 % of its memory.
POD_USE = 1024
PODS_OF_HOT = 3
MEASURED = policy_text(
    "LowNodeUtilization",
    "{thresholds: {memory: 30}, targetThresholds: {memory: 60}, "
    "metricsUtilization: {source: KubernetesMetrics}}",
    "balance", compat="fixed", metricsProviders="[{source: KubernetesMetrics}]")
# Of six pods that grow three leave.
SERIES = policy_text("NodePressure", "{consecutiveReports: 1, secondsToCrossing: 200}", "balance",
                     compat="fixed")
GROWING, LEAVING, HEADROOM = 6, 3, 50
NO_REPORT, NO_NODE = "the list of NodeReports is empty", "unable to find node"


def list_of(kind: str, version: str, items: list[dict]) -> bytes:
    return answer(200, "OK", json.dumps(
        {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}))


def faults(proxy: RequestProxy) -> tuple[tuple[str, Treat, str], ...]:
    """With what the log has of each one."""
    return (
        ("404", proxy.refuse(failure(404, "NotFound")), "404 NotFound"),
        ("403", proxy.refuse(failure(403, "Forbidden")), "403 Forbidden"),
        ("409", proxy.refuse(failure(409, "Conflict")), "409 Conflict"),
        ("429", proxy.refuse(failure(429, "TooManyRequests")), "429 TooManyRequests"),
        ("500", proxy.refuse(failure(500, "InternalError")), "500 InternalError"),
        ("503", proxy.refuse(failure(503, "ServiceUnavailable")), "503 ServiceUnavailable"),
        ("no answer", proxy.drop, "."),
        ("list cut", proxy.cut, "."),
    )


class MeasuredFaultTests(MoveCase):
    def begin_hot_node(self, app: str, pods: int) -> RequestProxy:
        """All pods are on one node. The other one is cordoned."""
        proxy = self.begin_faults()
        self.kubelet.register("hot")
        self.create_set(app, pods)
        self.kubelet.register("cold")
        fixture.lab.kubectl("cordon", "cold")
        return proxy

    def return_pods(self, app: str, count: int) -> None:
        """To the hot node."""
        fixture.lab.kubectl("cordon", "cold")
        for pod in of(self.watch.now(), app):
            if node_of(pod) == "cold":
                fixture.lab.api.call("DELETE", f"{PODS}/{pod['metadata']['name']}")
        self.wait_for_pods_on("hot", app, count)
        self.wait_until_ready(app, count)

    @staticmethod
    def wait_for_plans(log: Rebalancer) -> None:
        """Three that begin from now on at the earliest."""
        index = log.mark()
        for _ in range(4):
            index = log.wait(PLAN, index)

    def check_measured_fault(self, proxy: RequestProxy, policy: str, requests: tuple[str, ...],
                             treat: Treat, problem: str, measure: Callable[[], None]) -> None:
        """The node is hot by what was measured before the fault. During it a destination comes, and
        no pod leaves. After it one does, without a restart."""
        measure()
        self.begin_record()
        with rebalancer(EVERY_SECOND, policy=policy, server=SERVER) as log:
            log.wait(PLAN, log.wait(PLAN))
            mark = log.mark()
            rules = [Rule(each, "", treat, ALL) for each in requests]
            proxy.rules[:0] = rules
            for each in rules:
                proxy.wait(each)
            fixture.lab.kubectl("uncordon", "cold")
            self.wait_for_plans(log)
            self.assertEqual(log.events("eviction"), [], log.lines)
            self.check_problems(log, mark, problem)
            measure()
            del proxy.rules[:len(rules)]
            log.wait(r"event=eviction .*state=evicted")
            self.wait_for_plans(log)
            self.assertEqual(len(self.check_record(log)), 1, log.lines)

    def check_problems(self, log: Rebalancer, begin: int, problem: str) -> None:
        """The log has once what is missing; of a list that lacks a node the plugin's error."""
        plans, plugins = ([each["problem"] for each in log.events(name, begin)
                           if "problem" in each] for name in ("plan", "plugin"))
        found = set(plugins) if problem == NO_NODE else plans
        self.assertEqual(len(found), 1, log.lines)
        self.assertRegex(next(iter(found)), problem)

    def check_measured_faults(self, proxy: RequestProxy, app: str, policy: str,
                              requests: tuple[str, ...],
                              each_fault: tuple[tuple[str, Treat, str], ...],
                              measure: Callable[[], None]) -> None:
        count = len(of(self.watch.now(), app))
        for name, treat, problem in each_fault:
            with self.subTest(name):
                begun = time.monotonic()
                self.check_measured_fault(proxy, policy, requests, treat, problem, measure)
                report(name, f"{time.monotonic() - begun:.1f} s")
            self.return_pods(app, count)

    def write_reports(self, headroom: int, growth: int) -> None:
        """Of a hot node with so many MiB, and of an empty one."""
        self.write_report("hot", headroom, growth, {"leaker": 1})
        self.write_report("cold", 3500, 0, {"leaker": 1})

    def remove_reports(self) -> None:
        for node in ("hot", "cold"):
            self.addCleanup(fixture.lab.api.call, "DELETE", f"{REPORTS}/{node}")

    def test_hg_without_node_reports_no_pod_leaves(self) -> None:
        proxy = self.begin_hot_node("leaker", 1)
        self.remove_reports()
        self.check_measured_faults(
            proxy, "leaker", PRESSURE, (REPORTS_LIST,),
            (*faults(proxy), ("empty list", proxy.refuse(
                list_of("NodeReportList", "forestall.dev/v1alpha1", [])), NO_REPORT)),
            lambda: self.write_reports(300, 1))

    def serve_metrics(self, proxy: RequestProxy) -> None:
        """As a metrics server, which this cluster has not."""
        def pods(client: ssl.SSLSocket, _request: bytes) -> None:
            client.sendall(list_of("PodMetricsList", "metrics.k8s.io/v1beta1", [
                {"metadata": each["metadata"], "containers": [
                    {"name": "c", "usage": {"cpu": "1m", "memory": f"{POD_USE}Mi"}}]}
                for each in of(self.watch.now(), "busy")]))

        def nodes(client: ssl.SSLSocket, _request: bytes) -> None:
            client.sendall(list_of("NodeMetricsList", "metrics.k8s.io/v1beta1", [
                {"metadata": {"name": node}, "usage": {
                    "cpu": "10m", "memory": f"{POD_USE * self.pods_on(node, 'busy')}Mi"}}
                for node in ("hot", "cold")]))
        proxy.add(NODE_METRICS, "", nodes, ALL)
        proxy.add(POD_METRICS, "", pods, ALL)

    def test_hi_without_metrics_no_pod_leaves(self) -> None:
        proxy = self.begin_hot_node("busy", PODS_OF_HOT)
        self.serve_metrics(proxy)
        empty = proxy.refuse(list_of("NodeMetricsList", "metrics.k8s.io/v1beta1", []))
        self.check_measured_faults(
            proxy, "busy", MEASURED, (NODE_METRICS, POD_METRICS),
            (*faults(proxy), ("empty list", empty, NO_NODE)), lambda: None)

    def report_until_planned(self, log: Rebalancer, evictions: int) -> None:
        """The nodes report what is, until the process has a plan with evictions: so many."""
        index, planned = log.mark(), 0
        while planned == 0:
            left = self.pods_on("hot", "leaker")
            self.write_reports(HEADROOM + POD_REPORTED * (GROWING - left), left)
            index = log.wait(PLAN, index)
            planned = int(fields_of(log.lines[index - 1])["evictions"])
        self.assertEqual(planned, evictions, log.lines)

    def test_hj_the_next_leader_moves_no_pod_by_reports_of_before(self) -> None:
        """At its second eviction the leader has no connection any more. The next one evicts nothing
        until the node reports what is left, and then the rest only."""
        proxy = self.begin_hot_node("leaker", GROWING)
        self.remove_reports()
        late = threading.Event()
        self.addCleanup(late.set)
        answers = []

        def hold(_client: ssl.SSLSocket, request: bytes) -> None:
            proxy.add("", "", proxy.drop, ALL)
            late.wait(PATIENCE)
            answers.append(proxy.whole_answer(request).split(b"\r\n", 1)[0].decode())
        proxy.add(*EVICTION, proxy.pass_through, 1)
        held = proxy.add(*EVICTION, hold)
        self.begin_record()
        with rebalancer(*ELECTION, policy=SERIES, server=SERVER) as first:
            first.wait("state=leads")
            with rebalancer(*ELECTION, policy=SERIES) as second:
                second.wait("event=lease")
                fixture.lab.kubectl("uncordon", "cold")
                self.report_until_planned(first, LEAVING)
                proxy.wait(held)
                second.wait("state=leads")
                self.wait_until_ready("leaker", GROWING)
                self.wait_for_plans(second)
                self.assertEqual(second.events("eviction"), [], second.lines)
                self.report_until_planned(second, LEAVING - 1)
                self.wait_for_pods_on("hot", "leaker", GROWING - LEAVING)
                late.set()
                first.wait("event=plan problem=")
                self.wait_for_plans(second)
                self.assertEqual(len(self.check_record(first, second)), LEAVING)
        self.assertEqual(len(answers), 1)
        self.assertIn(" 404 ", answers[0])
