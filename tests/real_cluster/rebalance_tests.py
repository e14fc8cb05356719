# SPDX-License-Identifier: Apache-2.0
"""`forestall rebalance` against the API server: its plans, disruption budgets, its leader."""

from __future__ import annotations

import contextlib
import re
import select
import signal
import ssl
import time

from http.client import HTTPSConnection

import fixture
from fixture import AGENTS, NODES, PODS, hog, report
from lab import is_ready
from move_fixture import MoveCase
from rebalancer import Rebalancer, rebalancer

REPLICAS, AVAILABLE = 6, 4
LEASE = "/apis/coordination.k8s.io/v1/namespaces/forestall/leases/forestall-rebalance"
LEASE_SECONDS = 6
# Of both pods of the rebalancer.
NAME, LEASE_NAME = "app.kubernetes.io/name", "forestall-rebalance"
SECURE_PORT = 10258
# All pods of the ReplicaSet that are a second old.
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: age
  pluginConfig:
  - name: DefaultEvictor
    args: {labelSelector: {matchLabels: {app: moved}}}
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 1, namespaces: {include: [default]}}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
"""


class RebalanceTests(MoveCase):
    def create_replicas(self) -> None:
        """Pods of a ReplicaSet, with a budget that permits a part of them to be away. Another node,
        of which only the object exists: no pod of a single node is evicted."""
        fixture.lab.api.call("POST", NODES, {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "empty"},
            "spec": {"unschedulable": True, "taints": [{"key": "lab", "effect": "NoExecute"}]}})
        self.addCleanup(fixture.lab.api.call, "DELETE", f"{NODES}/empty")
        fixture.lab.api.call("PATCH", f"{NODES}/empty/status", {"status": {"conditions": [
            {"type": "Ready", "status": "True"}]}}, "application/strategic-merge-patch+json")
        selector = {"matchLabels": {"app": "moved"}}
        template = hog("moved", 1, 0, terminationGracePeriodSeconds=0)
        path = "/apis/apps/v1/namespaces/default/replicasets"
        fixture.lab.api.call("POST", path, {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "moved"},
            "spec": {"replicas": REPLICAS, "selector": selector, "template": {
                "metadata": {"labels": {"app": "moved"}}, "spec": template["spec"]}}})
        self.addCleanup(fixture.lab.kubectl, "delete", "replicaset/moved", "--cascade=foreground")
        budgets = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
        fixture.lab.api.call("POST", budgets, {
            "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "moved"}, "spec": {"minAvailable": AVAILABLE,
                                                    "selector": selector}})
        self.addCleanup(fixture.lab.api.call, "DELETE", f"{budgets}/moved")
        self.wait_for_budget()

    def wait_for_budget(self) -> None:
        def permits(budget: dict) -> bool:
            allowed = budget.get("status", {}).get("disruptionsAllowed")
            return allowed == REPLICAS - AVAILABLE
        fixture.lab.api.wait(
            "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets",
            lambda _, each: permits(each), "the budget permits evictions",
            fieldSelector="metadata.name=moved")

    def pods(self) -> set[str]:
        return {f"default/{each['metadata']['name']}" for each in fixture.lab.api.get(
            f"{PODS}?labelSelector=app%3Dmoved")["items"]}

    def check_pages(self) -> None:
        """The kubelet's probes have what they read; so has a scraper that verifies nothing."""
        pods = fixture.lab.api.get(f"{AGENTS}?labelSelector={NAME}%3D{LEASE_NAME}")["items"]
        self.assertEqual([is_ready(each) for each in pods], [True, True])
        for pod in pods:
            for path, part in (("/livez", ""), ("/readyz", ""), ("/metrics", "descheduler_")):
                connection = HTTPSConnection(pod["status"]["podIP"], SECURE_PORT, timeout=30,
                                             context=ssl._create_unverified_context())
                with contextlib.closing(connection):
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    self.assertEqual(answer.status, 200, path)
                    self.assertIn(part, answer.read().decode(), path)

    def test_f_the_manifests_of_the_rebalancer_run(self) -> None:
        """Two pods, of which one leads and plans. The Lease is given up at the end."""
        self.apply_manifests(2)
        lease = fixture.lab.api.wait(
            LEASE.rpartition("/")[0], lambda _, each: each["spec"].get("holderIdentity", "") != "",
            "the Lease has a holder", fieldSelector="metadata.name=forestall-rebalance")
        fixture.lab.kubectl("-n", "forestall", "rollout", "status", "--timeout=60s",
                            "deployment/forestall-rebalance")

        def logs() -> str:
            return fixture.lab.kubectl("-n", "forestall", "logs", "-l", f"{NAME}={LEASE_NAME}",
                                       "--prefix")
        self.wait_for(lambda: re.search(r"\bplan\b.*evictions=0", logs()), "a plan")
        leaders = re.findall(r"state=leads", logs())
        self.assertEqual(len(leaders), 1, logs())
        report("holder of the Lease", lease["spec"]["holderIdentity"])
        self.check_pages()
        fixture.lab.kubectl("-n", "forestall", "scale", "--replicas=0",
                            "deployment/forestall-rebalance")
        fixture.lab.api.wait(
            LEASE.rpartition("/")[0], lambda _, each: each["spec"].get("holderIdentity", "") == "",
            "the Lease is given up", fieldSelector="metadata.name=forestall-rebalance")

    def test_g_a_plan_is_what_the_dry_run_shows(self) -> None:
        """The budget permits two evictions. The plan has all pods, the API server refuses the
        rest."""
        self.apply_manifests(0)
        self.create_replicas()
        before = self.pods()
        with rebalancer("--dry-run", policy=POLICY) as dry:
            self.assertEqual(dry.end(), 0, dry.lines)
        planned = {name for name, state in dry.evictions().items() if state == "dry-run"}
        self.assertGreaterEqual(len(planned), REPLICAS - AVAILABLE, dry.lines)
        self.assertEqual(self.pods(), before)
        with rebalancer(policy=POLICY) as real:
            self.assertEqual(real.end(), 0, real.lines)
        states = {name: state for name, state in real.evictions().items()
                  if state != "refused-by-plan"}
        self.assertEqual(states.keys(), planned)
        evicted = {name for name, state in states.items() if state == "evicted"}
        self.assertEqual(len(evicted), REPLICAS - AVAILABLE, states)
        self.assertLessEqual(set(states.values()), {"evicted", "refused-by-budget"})
        self.assertEqual(before & self.pods(), before - evicted)
        event = fixture.lab.api.wait(
            "/api/v1/namespaces/default/events",
            lambda _, each: f"default/{each['involvedObject']['name']}" in evicted,
            "an Event of the eviction", fieldSelector="reason=PodLifeTime,source=forestall")
        self.assertEqual(event["type"], "Normal")

    def test_h_another_process_leads_if_the_leader_is_lost(self) -> None:
        """The leader is stopped in the middle of its evictions. When it runs again it evicts
        nothing: the other one leads. Then that one is killed."""
        self.apply_manifests(0)
        self.create_replicas()
        options = ("--descheduling-interval=1s", "--leader-elect",
                   "--leader-elect-resource-name=forestall-rebalance",
                   "--leader-elect-resource-namespace=forestall",
                   f"--leader-elect-lease-duration={LEASE_SECONDS}s",
                   "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
        with rebalancer(*options, policy=POLICY) as first, \
                rebalancer(*options, policy=POLICY) as second:
            leader, other = first, second
            self.wait_for(lambda: self.leads(first) or self.leads(second), "one of both leads")
            if self.leads(second):
                leader, other = second, first
            leader.wait(r"eviction.*state=evicted")
            leader.send(signal.SIGSTOP)
            begun = time.monotonic()
            leads = other.wait(r"leader.*state=leads")
            report("leader stopped to the next one", f"{time.monotonic() - begun:.1f} s")
            mark = len(leader.lines)
            leader.send(signal.SIGCONT)
            lost = leader.wait(r"leader.*state=lost", mark)
            other.wait(r"eviction.*state=evicted", leads)
            while leader.read(0.1) and select.select([leader.process.stdout], [], [], 0)[0]:
                pass
            # Unknown: the answer to a request from before it was stopped.
            late = [state for state in leader.evictions(lost).values()
                    if state not in ("abandoned", "unknown")]
            self.assertEqual(late, [], leader.lines)
            mark = len(leader.lines)
            other.send(signal.SIGKILL)
            begun = time.monotonic()
            leader.wait(r"leader.*state=leads", mark)
            report("leader killed to the next one", f"{time.monotonic() - begun:.1f} s")
            lease = fixture.lab.api.get(LEASE)["spec"]
            self.assertEqual(lease["leaseDurationSeconds"], LEASE_SECONDS)

    @staticmethod
    def leads(process: Rebalancer) -> bool:
        process.read(0)
        return any("state=leads" in line for line in process.lines)
