# SPDX-License-Identifier: Apache-2.0
"""`reserve: placeholder` with the real scheduler, on nodes of a fake kubelet."""

from __future__ import annotations

import signal
import threading

import fixture
from fake_kubelet import LABEL
from fixture import MANIFESTS, PODS, report
from lab import PATIENCE
from move_fault_tests import EVICTION
from move_fixture import MoveCase, node_of, of, policy_text
from object_watch import ObjectWatch
from proxy import failure
from rebalancer import Rebalancer, rebalancer
from request_proxy import SERVER, RequestProxy

PLACEHOLDERS = "/api/v1/namespaces/forestall-placeholders/pods"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CREATION = ("POST ", f"{PLACEHOLDERS} ")
SECONDS = 10  # that a room is held at most


def policy(seconds: int) -> str:
    return policy_text("RemovePodsViolatingNodeTaints", "{}", "deschedule", compat="fixed",
                       reserve="placeholder", placeholder=f"{{seconds: {seconds}}}")


def is_unschedulable(pod: dict) -> bool:
    return any(each["type"] == "PodScheduled" and each["status"] == "False"
               for each in pod["status"].get("conditions") or [])


class MovePlaceholderTests(MoveCase):
    rooms: ObjectWatch

    def begin_placeholders(self, moved: int = 2) -> RequestProxy:
        """Two pods of 1 GiB on a node that is drained; the other node has room for one of them."""
        fixture.lab.kubectl("apply", "-f", MANIFESTS / "overlays/placeholder/placeholder.yaml")
        self.begin_moves()
        self.rooms = ObjectWatch(fixture.lab.api, PLACEHOLDERS)
        self.addCleanup(self.rooms.close)
        proxy = RequestProxy(fixture.lab)
        self.addCleanup(proxy.close)
        self.kubelet.register("drained")
        if moved:
            self.create_set("moved", moved, memory="1Gi")
        self.kubelet.register("target")
        self.create_set("other", 1, memory="2560Mi",
                        nodeSelector={LABEL: "yes", "kubernetes.io/hostname": "target"})
        fixture.lab.kubectl("cordon", "drained")
        fixture.lab.api.wait(
            fixture.NODES, lambda _, node: bool(node["spec"].get("taints")), "the taint is there",
            fieldSelector="metadata.name=drained")
        self.begin_record()
        return proxy

    def create_competitor(self, owners: list[dict] = (), **spec: object) -> None:
        """A pod that fits the room for a moved one."""
        fixture.lab.api.call("POST", PODS, {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "competitor", "labels": {"app": "competitor"},
                         "ownerReferences": list(owners)},
            "spec": {"terminationGracePeriodSeconds": 0, "nodeSelector": {LABEL: "yes"},
                     "containers": [{"name": "c", "image": "localhost/none:1", "resources": {
                         "requests": {"memory": "1Gi"}}}], **spec}})
        self.addCleanup(self.delete, "competitor")

    def wait_for_competitor(self, holds, what: str) -> None:
        self.watch.wait(lambda pods: any(map(holds, of(pods, "competitor"))),
                        f"the competitor {what}")

    def wait_for_rooms(self, count: int) -> None:
        self.rooms.wait(lambda pods: len(pods) == count, f"{count} placeholders")

    @staticmethod
    def states_of_rooms(log: Rebalancer) -> list[str]:
        return [each["state"] for each in log.events("placeholder")]

    def test_h8_a_placeholder_holds_the_room_for_the_moved_pod(self) -> None:
        """A pod of even lower priority comes before the eviction: it does not get the room."""
        proxy = self.begin_placeholders()
        fixture.lab.api.call("POST", PRIORITIES, {
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "lowest"}, "value": -2000})
        self.addCleanup(fixture.lab.api.call, "DELETE", f"{PRIORITIES}/lowest")
        held = []

        def compete() -> None:
            held.extend(node_of(each) for each in self.rooms.now())
            self.create_competitor(priorityClassName="lowest")
            self.wait_for_competitor(is_unschedulable, "has no room")
        proxy.add(*EVICTION, proxy.after(compete))
        log = self.run_once(policy(60), server=SERVER)
        self.assertEqual(held, ["target"], log.lines)
        self.assertEqual(len(self.check_record(log)), 1)
        self.wait_until_ready("moved", 2)
        self.assertEqual(self.pods_on("target", "moved"), 1)
        self.assertEqual(self.pods_on("drained", "moved"), 1)
        self.assertTrue(is_unschedulable(of(self.watch.now(), "competitor")[0]))
        states = self.states_of_rooms(log)
        report("placeholder", states)
        self.assertEqual(states[:2], ["created", "held"])
        self.assertIn(states[2:], (["removed"], ["lost"]))
        self.wait_for_rooms(0)

    def test_h9_without_the_room_no_pod_is_evicted(self) -> None:
        """Between the plan and the placeholder another pod takes the room."""
        proxy = self.begin_placeholders()

        def take() -> None:
            self.create_competitor()
            self.wait_for_competitor(fixture.is_ready, "has the room")
        proxy.add(*CREATION, proxy.after(take))
        log = self.run_once(policy(60), server=SERVER)
        self.assertEqual(self.check_record(log), [])
        self.assertEqual(self.pods_on("drained", "moved"), 2)
        self.assertIn("no-room", log.evictions().values())
        self.assertNotIn("held", self.states_of_rooms(log))
        self.wait_for_rooms(0)

    def test_ha_a_placeholder_of_a_killed_process_is_removed(self) -> None:
        """It is killed between the placeholder and the eviction. The next plan moves the pod."""
        proxy = self.begin_placeholders()
        held = threading.Event()

        def hold(client, _request: bytes) -> None:
            held.set()
            client.recv(1)  # until the process has ended
        proxy.add(*EVICTION, hold)
        with rebalancer(policy=policy(60), server=SERVER) as first:
            self.assertTrue(held.wait(PATIENCE))
            first.send(signal.SIGKILL)
            first.end()
        self.wait_for_rooms(1)
        log = self.run_once(policy(60))
        self.assertEqual(len(self.check_record(log)), 1, log.lines)
        self.wait_until_ready("moved", 2)
        self.assertEqual(self.pods_on("target", "moved"), 1)
        self.wait_for_rooms(0)

    def test_hb_a_refused_eviction_gives_its_room_to_the_next_pod(self) -> None:
        """The node has room for one of both."""
        proxy = self.begin_placeholders()
        proxy.add(*EVICTION, proxy.refuse(failure(403, "Forbidden")))
        log = self.run_once(policy(60), server=SERVER)
        self.assertEqual([each["state"] for each in log.events("eviction")
                          if each["state"] != "refused-by-plan"], ["refused", "evicted"], log.lines)
        self.assertEqual(len(self.check_record(log)), 1)
        self.wait_until_ready("moved", 2)
        self.assertEqual(self.pods_on("target", "moved"), 1)
        self.wait_for_rooms(0)

    def test_hc_a_placeholder_ends_with_its_time(self) -> None:
        """The owner of the pod makes no other one."""
        self.begin_placeholders(moved=0)
        path = "/api/v1/namespaces/default/configmaps"
        owner = fixture.lab.api.call("POST", path, {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
        self.addCleanup(fixture.lab.api.call, "DELETE", f"{path}/owner")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                     "uid": owner["metadata"]["uid"]}
        self.create_competitor([reference], nodeName="drained")
        self.wait_for_competitor(fixture.is_ready, "runs")
        self.begin_record()
        log = self.run_once(policy(SECONDS))
        self.assertEqual(self.states_of_rooms(log), ["created", "held", "removed"], log.lines)
        self.assertEqual(self.check_record(log), ["default/competitor"])
        self.wait_for_rooms(0)
