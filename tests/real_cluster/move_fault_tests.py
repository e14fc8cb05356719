# SPDX-License-Identifier: Apache-2.0
"""`forestall rebalance` with an API server that fails in the middle of a plan, and without its
leader."""

from __future__ import annotations

import collections
import signal
import ssl
import threading
import time
from collections.abc import Callable

import fixture
from fixture import report
from lab import PATIENCE
from move_fixture import MoveCase, policy_text
from move_tests import EVERY_SECOND, TAINTS
from proxy import error_event, failure
from rebalancer import Rebalancer, rebalancer
from request_proxy import SERVER, RequestProxy

APP, PODS_OF_APP, LIMIT, AVAILABLE = "faulty", 6, 2, 3
# All pods of the workload may go, two in a plan: both nodes have a taint, and are used all the
# same.
POLICY = policy_text("RemovePodsViolatingNodeTaints", "{includePreferNoSchedule: true}",
                     "deschedule", labels=APP, maxNoOfPodsToEvictTotal=LIMIT)
# In the version that this API server has; the rebalancer tries a later one first.
EVICTION = ("POST ", '"policy/v1beta1","kind":"Eviction"')
PODS_LIST = ("GET /api/v1/pods?", "")
PODS_PAGES = ("GET /api/v1/pods?limit=", "")
PODS_WATCH = ("GET /api/v1/pods?watch=1", "")
ALL = 1000
DRAIN = TAINTS.replace("compat: fixed", "compat: upstream")
ELECTION = (EVERY_SECOND, "--leader-elect", "--leader-elect-resource-name=forestall-rebalance",
            "--leader-elect-resource-namespace=forestall", "--leader-elect-lease-duration=6s",
            "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")


class MoveFaultTests(MoveCase):
    def check_plan(self, proxy: RequestProxy, states: dict[str, int], code: int = 0) -> None:
        """A plan with the proxy's rules ends so: the states of its evictions with their numbers.
        What the log has is what happened, and without the fault the next plan does its work."""
        self.begin_record()
        log = self.run_once(POLICY, server=SERVER, code=code)
        self.assertTrue(all(rule.met for rule in proxy.rules), proxy.rules)
        proxy.rules.clear()
        self.assertEqual(collections.Counter(log.evictions().values()), states, log.lines)
        self.assertLessEqual(len(self.check_record(log)), LIMIT)
        self.wait_until_well()
        self.begin_record()
        log = self.run_once(POLICY, server=SERVER)
        self.assertEqual(collections.Counter(log.evictions().values()), {"evicted": LIMIT})
        self.assertEqual(len(self.check_record(log)), LIMIT)
        self.wait_until_well()

    def wait_until_well(self) -> None:
        self.wait_until_ready(APP, PODS_OF_APP)
        self.wait_for_allowed(APP, PODS_OF_APP - AVAILABLE)

    def test_h5_a_fault_leaves_nothing_half_done(self) -> None:
        """For one plan the rebalancer has no watch that could be cut: it lists."""
        proxy = self.begin_faults()
        for node in ("one", "two"):
            self.kubelet.register(node)
            fixture.lab.kubectl("taint", "node", node, "lab=yes:PreferNoSchedule")
        self.create_set(APP, PODS_OF_APP)
        self.create_budget(APP, AVAILABLE, PODS_OF_APP - AVAILABLE)
        self.history.observe(APP)
        all_of_it = {"evicted": LIMIT}
        for name, request, treat, count, states, code in (
            ("409", EVICTION, proxy.refuse(failure(409, "Conflict")), 1, all_of_it, 0),
            ("401", EVICTION, proxy.refuse(failure(401, "Unauthorized")), 1, all_of_it, 0),
            ("429", EVICTION, proxy.refuse(failure(429, "TooManyRequests", "Retry-After: 1")), 1,
             all_of_it, 0),
            ("429 twice", EVICTION, proxy.refuse(failure(429, "TooManyRequests")), 2,
             {"failed": 1, **all_of_it}, 0),
            ("500", EVICTION, proxy.refuse(failure(500, "InternalError")), 1,
             {"failed": 1, **all_of_it}, 0),
            ("500 for all", EVICTION, proxy.refuse(failure(500, "InternalError")), ALL,
             {"failed": PODS_OF_APP}, 0),
            ("no answer, not done", EVICTION, proxy.drop, 1, all_of_it, 0),
            ("no answer, done", EVICTION, proxy.lose_answer, 1, all_of_it, 0),
            ("502, done", EVICTION, proxy.answer_otherwise(failure(502, "BadGateway")), 1,
             all_of_it, 0),
            ("list cut", PODS_LIST, proxy.cut, 1, all_of_it, 0),
            ("each list cut", PODS_LIST, proxy.cut, ALL, {}, 1),
        ):
            with self.subTest(name):
                begun = time.monotonic()
                proxy.add(*request, treat, count)
                self.check_plan(proxy, states, code)
                report(name, f"{time.monotonic() - begun:.1f} s")
        self.assertGreaterEqual(self.history.least[APP], AVAILABLE)

    def begin_drain(self) -> None:
        """Eight pods on a node that will be drained. They stay for their grace period, so that a
        further plan finds them."""
        self.kubelet.register("drained")
        self.create_set("web", 8, memory="256Mi", grace=3)
        self.kubelet.register("target")
        self.begin_record()

    def check_drained(self, *logs: Rebalancer) -> None:
        """Each pod was evicted once, by one of the processes."""
        self.wait_for_pods_on("drained", "web", 0)
        self.wait_until_ready("web", 8)
        for log in logs:
            log.mark()
        self.assertEqual(len(self.check_record(*logs)), 8)

    def check_watch(self, proxy: RequestProxy, treat: Callable[[ssl.SSLSocket, bytes], None],
                    count: int, lists: int, problem: str) -> None:
        """A node is drained while so many watches of pods are treated so. The pods are listed so
        often, and each one is evicted once. `problem`: what the log has of the watch of pods; "":
        it has none."""
        self.begin_record()
        listed = proxy.add(*PODS_PAGES, proxy.pass_through, ALL)
        ended = threading.Event()
        # No fault: its end has no line in the log, which would keep later problems out of it.
        proxy.add(*PODS_WATCH, proxy.quiet_watch(ended))
        rule = proxy.add(*PODS_WATCH, treat, count)
        try:
            with rebalancer(EVERY_SECOND, policy=DRAIN, server=SERVER) as log:
                log.wait(r"event=plan evictions=0")
                ended.set()
                fixture.lab.kubectl("cordon", "drained")
                self.check_drained(log)
                # Of the state after the evictions.
                log.wait(r"event=plan evictions=0", log.mark())
                self.assertEqual((rule.met, listed.met), (count, lists), log.lines)
                problems = {name: [each["problem"] for each in log.events(name)
                                   if each.get("resource", "pods") == "pods" and "problem" in each]
                            for name in ("watch", "plan")}
                self.assertEqual(problems["plan"], [], log.lines)
                self.assertEqual(bool(problems["watch"]), bool(problem), log.lines)
                if problem:
                    self.assertRegex(problems["watch"][0], "^watch /api/v1/pods: " + problem)
        finally:
            ended.set()
            proxy.rules.clear()

    def test_hf_a_watch_that_is_cut_leaves_no_change_out(self) -> None:
        proxy = self.begin_faults()
        self.begin_drain()
        for name, treat, count, lists, problem in (
            ("cut in an event", proxy.cut_watch, 2, 1, "."),
            ("410", proxy.refuse(failure(410, "Expired")), 1, 2, "410 Expired"),
            # As the API server's watch cache.
            ("410 in an event", proxy.refuse(error_event(410, "Expired")), 1, 2, "410 Expired"),
            # The pods are listed again before it counts as a failure.
            ("without events", proxy.stall_watch, 1, 2, ""),
        ):
            with self.subTest(name):
                begun = time.monotonic()
                self.check_watch(proxy, treat, count, lists, problem)
                report(name, f"{time.monotonic() - begun:.1f} s")
            fixture.lab.kubectl("uncordon", "drained")
            fixture.lab.kubectl("cordon", "target")
            with rebalancer(EVERY_SECOND, policy=DRAIN) as log:
                self.wait_for_pods_on("target", "web", 0)
                self.wait_until_ready("web", 8)
                log.wait("event=plan ")
            fixture.lab.kubectl("uncordon", "target")

    def test_h6_a_leader_without_the_api_server_is_replaced(self) -> None:
        """At its third eviction the leader has no connection any more. That request reaches the API
        server when the next leader has done the work."""
        proxy = self.begin_faults()
        self.begin_drain()
        late = threading.Event()
        answers = []

        def hold(_client, request: bytes) -> None:
            proxy.add("", "", proxy.drop, ALL)
            late.wait(PATIENCE)
            answers.append(proxy.whole_answer(request).split(b"\r\n", 1)[0].decode())
        proxy.add(*EVICTION, proxy.pass_through, 2)
        held = proxy.add(*EVICTION, hold)
        self.addCleanup(late.set)
        with rebalancer(*ELECTION, policy=DRAIN, server=SERVER) as first:
            first.wait("state=leads")
            with rebalancer(*ELECTION, policy=DRAIN) as second:
                second.wait("event=lease")
                fixture.lab.kubectl("cordon", "drained")
                proxy.wait(held)
                begun = time.monotonic()
                second.wait("state=leads")
                report("leader without a connection to the next one",
                       f"{time.monotonic() - begun:.1f} s")
                first.wait("state=lost")
                self.wait_for_pods_on("drained", "web", 0)
                late.set()
                first.wait("event=plan problem=")
                self.check_drained(first, second)
                self.assertEqual(list(first.evictions().values()).count("evicted"), 2)
        self.assertEqual(len(answers), 1)
        self.assertIn(" 404 ", answers[0])

    def test_h7_a_leader_that_is_killed_is_replaced(self) -> None:
        """It ends between its third eviction and the answer."""
        proxy = self.begin_faults()
        self.begin_drain()

        def do_not_answer(client, request: bytes) -> None:
            proxy.whole_answer(request)
            done.set()
            client.recv(1)  # until the process has ended
        done = threading.Event()
        proxy.add(*EVICTION, proxy.pass_through, 2)
        proxy.add(*EVICTION, do_not_answer)
        with rebalancer(*ELECTION, policy=DRAIN, server=SERVER) as first:
            first.wait("state=leads")
            with rebalancer(*ELECTION, policy=DRAIN) as second:
                second.wait("event=lease")
                fixture.lab.kubectl("cordon", "drained")
                self.assertTrue(done.wait(PATIENCE))
                first.send(signal.SIGKILL)
                second.wait("state=leads")
                self.wait_for_pods_on("drained", "web", 0)
                self.wait_until_ready("web", 8)
                second.mark()
                self.assertEqual(len(set(self.audit.evicted())), 8)
                self.assertEqual(len(self.audit.evicted()), 8)
                first.end()
                logged = [*first.evictions(), *second.evictions()]
                self.assertEqual(len(logged), 7, "all but the one whose answer never came")
