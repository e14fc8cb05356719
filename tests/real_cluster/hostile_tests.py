# SPDX-License-Identifier: Apache-2.0
"""A hostile tenant: administrator of its namespace, root in its pods, no privileges on the node. It
reaches no interface of Forestall that is not for it, and makes no pod die but its own.

Its attempts on files, sockets and processes run in its container (hostile.c); those on the network
in the pod's network namespace, with the token that the pod has.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import select
import socket
import threading

from concurrent import futures

import fixture
from fixture import (AGENTS, NODES, PODS, ClusterCase, agent_pod, begin, container_pids, hog,
                     report, restarts)
from lab import API_ADDRESS, NODE, NODE_ADDRESS, LabError

NAMESPACE = "tenant"
NAMESPACES = "/api/v1/namespaces"
TENANT_PODS = f"{NAMESPACES}/{NAMESPACE}/pods"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
METRICS_PORT = 9464
CLONE_NEWNET = 0x40000000
MERGE_PATCH = "application/merge-patch+json"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FORESTALL_USER = "system:serviceaccount:forestall:forestall"
# What a tenant may write to its own pod to appear static, protected, or as another pod.
ANNOTATIONS = {
    "forestall.dev/protected": "true", "forestall.dev/avoid": "true",
    "forestall.dev/prefer": "false", "kubernetes.io/config.source": "file",
    "kubernetes.io/config.hash": "0123456789abcdef0123456789abcdef",
    "scheduler.alpha.kubernetes.io/critical-pod": "", "filler": "x" * 200_000,
}
# Connections that are held open, a multiple of what the agent accepts at once.
HELD = 400
# Less than timeoutSeconds of the probes in the manifests.
PROBE_SECONDS = 1
PROBES = 50


def in_network_of(pid: int, action):
    """Result of the action, run by a thread in the network namespace of the process."""
    def run():
        with open(f"/proc/{pid}/ns/net", encoding="ascii") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return action()
    with futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def listening(pid: int) -> set[tuple[str, int]]:
    """Protocol and port of what accepts connections or datagrams in the network namespace."""
    found = set()
    for protocol, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for line in pathlib.Path(f"/proc/{pid}/net/{protocol}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state:
                found.add((protocol, int(fields[1].rsplit(":", 1)[1], 16)))
    return found


def abstract_sockets(pid: int) -> set[str]:
    """Names of abstract Unix sockets in the network namespace of the process."""
    lines = pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]
    return {fields[7] for fields in map(str.split, lines)
            if len(fields) > 7 and fields[7].startswith("@")}


def http_answer(address: str, method: str, path: str) -> int:
    connection = http.client.HTTPConnection(address, METRICS_PORT, timeout=PROBE_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path)
        return connection.getresponse().status


def failed_probes() -> dict[str, int]:
    """What the kubelet has reported of the agent's pods so far: Events and their counts."""
    events = fixture.lab.api.get(f"{NAMESPACES}/forestall/events")["items"]
    return {each["metadata"]["name"]: each["count"] for each in events
            if each["reason"] == "Unhealthy"}


class Crowd:
    """Connections to the agent's port that send half of a request and wait. Those that the agent
    closes are made again, by a thread in the network namespace of a process."""

    def __init__(self, pid: int, address: str) -> None:
        self.address, self.made, self.over = address, 0, False
        self.full = threading.Event()
        self.thread = threading.Thread(target=lambda: in_network_of(pid, self._press))
        self.thread.start()

    def _connect(self) -> socket.socket:
        made = socket.create_connection((self.address, METRICS_PORT), PROBE_SECONDS)
        made.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        self.made += 1
        return made

    def _press(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            held: set[socket.socket] = set()
            while not self.over:
                while len(held) < HELD:
                    with contextlib.suppress(OSError):
                        held.add(all_of_them.enter_context(self._connect()))
                self.full.set()
                for closed in select.select(held, [], [], 0.1)[0]:
                    held.discard(closed)
                    closed.close()

    def close(self) -> None:
        self.over = True
        self.thread.join()


class HostileTests(ClusterCase):
    def make_tenant(self) -> None:
        """The namespace, with an account that may do all that its administrator may."""
        with contextlib.suppress(LabError):
            fixture.lab.api.get(f"{NAMESPACES}/{NAMESPACE}")
            return
        api = fixture.lab.api
        api.call("POST", NAMESPACES, {"metadata": {"name": NAMESPACE}})
        api.wait(f"{NAMESPACES}/{NAMESPACE}/serviceaccounts",
                 lambda _, each: bool(each.get("secrets")), "the tenant's service account")
        api.call("POST", f"{RBAC}/namespaces/{NAMESPACE}/rolebindings", {
            "metadata": {"name": "admin"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}]})

    def hostile(self, pod: dict, **annotations: str) -> dict:
        """The pod, running in the tenant's namespace."""
        self.make_tenant()
        pod["metadata"]["annotations"] = annotations
        name = self.create(pod, TENANT_PODS)
        self.wait_until_known()
        return fixture.lab.api.get(f"{TENANT_PODS}/{name}")

    def attacker(self, name: str) -> dict:
        pod = hog(name)
        pod["spec"]["containers"][0]["image"] = "localhost/hostile:1"
        return self.hostile(pod)

    def neighbour(self, name: str = "neighbour", size: int = 100) -> list[int]:
        """Processes of a pod of another tenant, that uses `size` MiB and has no request."""
        self.create(hog(name, size, 0))
        self.wait_until_known()
        return container_pids(fixture.lab.api.get(f"{PODS}/{name}"))

    def attempts(self, name: str, *attempts: tuple[str, object]) -> dict[tuple[str, object], str]:
        """What came of each attempt in the container of the attacker."""
        words = [str(word) for attempt in attempts for word in attempt]
        lines = fixture.lab.kubectl("-n", NAMESPACE, "exec", name, "--", "/pause", *words)
        return dict(zip(attempts, lines.splitlines(), strict=True))

    def test_i_a_hostile_pod_reaches_no_socket_and_no_process(self) -> None:
        neighbour = self.neighbour()
        before = agent_pod()
        agent = {name: container_pids(before, name)[0] for name in ("agent", "cluster")}
        self.attacker("attacker")
        sockets = [str(each) for each in pathlib.Path("/run/forestall").iterdir()
                   if each.is_socket()]
        self.assertTrue(sockets, "the agent has no socket")
        # As the kernel of this node resolves them for the pod: its own /run, and its own /proc.
        sockets += ["/run/containerd/containerd.sock", "/proc/1/root/run/forestall/forestall.sock",
                    "/host/cgroup/cgroup.procs"]
        abstract = abstract_sockets(agent["agent"]) | abstract_sockets(os.getpid())
        pids = [*neighbour, *agent.values(), -1]
        came = self.attempts(
            "attacker", *[("connect", each) for each in [*sockets, *sorted(abstract)]],
            *[(kind, pid) for pid in pids for kind in ("kill", "trace")])
        for (kind, target), result in came.items():
            with self.subTest(f"{kind} {target}"):
                unreachable = "ECONNREFUSED" if str(target).startswith("@") else "ENOENT"
                self.assertEqual(result, unreachable if kind == "connect" else "ESRCH")
        files = [each for each in ("/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory",
                 "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                 "/sys/fs/cgroup/memory/cgroup.procs") if os.path.exists(each)]
        came = self.attempts("attacker", *[("write", each) for each in files], ("mount", "/proc"),
                             ("bpf", "map"), ("bpf", "prog"))
        self.assertEqual(came, {each: "EROFS" if each[0] == "write" else "EPERM" for each in came})
        self.assertEqual(container_pids(fixture.lab.api.get(f"{PODS}/neighbour")), neighbour)
        self.assertEqual(restarts(agent_pod()), restarts(before))

    def test_i2_a_hostile_pod_reads_metrics_at_most(self) -> None:
        """The network of this cluster enforces no NetworkPolicy, which would refuse that too."""
        attacker = container_pids(self.attacker("attacker"))[0]
        pod = agent_pod()
        agent = container_pids(pod, "agent")[0]
        self.assertNotEqual(os.readlink(f"/proc/{agent}/ns/net"), os.readlink("/proc/self/ns/net"),
                            "the agent has no port of the node")
        self.assertEqual(listening(agent), {("tcp", METRICS_PORT)})
        address = pod["status"]["podIP"]
        for method, path, status in (("GET", "/metrics", 200), ("GET", "/healthz", 200),
                                     ("GET", "/", 403), ("GET", "/page", 404),
                                     ("POST", "/metrics", 405), ("DELETE", "/metrics", 405),
                                     ("POST", "/forestall.v1.Agent/UpdatePods", 405)):
            with self.subTest(f"{method} {path}"):
                self.assertEqual(
                    in_network_of(attacker, lambda: http_answer(address, method, path)), status)
        for port in (METRICS_PORT, 2379):
            with self.subTest(f"port {port} of the node"), self.assertRaises(OSError):
                in_network_of(attacker, lambda: socket.create_connection(
                    (NODE_ADDRESS, port), PROBE_SECONDS).close())

    def request(self, pod: dict, method: str, path: str, body: dict | None = None,
                **headers: str) -> int:
        """Status of the answer to a request from the pod's network, with the pod's token."""
        pid = container_pids(pod)[0]
        token = pathlib.Path(f"/proc/{pid}/root{ACCOUNT}/token").read_text()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": MERGE_PATCH
                   if method == "PATCH" else "application/json"} | headers

        def send() -> int:
            connection = http.client.HTTPSConnection(API_ADDRESS, timeout=30,
                                                     context=fixture.lab.api.context)
            with contextlib.closing(connection):
                connection.request(method, path, body and json.dumps(body), headers)
                return connection.getresponse().status
        return in_network_of(pid, send)

    def test_i3_the_token_of_a_hostile_pod_changes_its_namespace_only(self) -> None:
        neighbour = self.neighbour()
        pod = self.attacker("attacker")
        agent = agent_pod()["metadata"]["name"]
        forestall = f"{NAMESPACES}/forestall"
        note = {"metadata": {"annotations": ANNOTATIONS}}
        eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction",
                    "metadata": {"name": "neighbour", "namespace": "default"}}
        event = {"metadata": {"name": "forged"}, "reason": "Evicted", "involvedObject": {}}
        failed = {"status": {"phase": "Failed"}}
        attempts = (
            ("POST", f"{PODS}/neighbour/eviction", eviction), ("DELETE", f"{PODS}/neighbour", {}),
            ("PATCH", f"{PODS}/neighbour", note), ("PATCH", f"{PODS}/neighbour/status", failed),
            ("GET", PODS, None), ("POST", f"{NAMESPACES}/default/events", event),
            ("PATCH", f"{NODES}/{NODE}", note), ("PATCH", f"{NODES}/{NODE}/status", note),
            ("GET", f"{NODES}/{NODE}/proxy/pods", None),
            ("PATCH", f"/apis/forestall.dev/v1alpha1/nodereports/{NODE}", note),
            ("GET", f"{forestall}/secrets", None), ("POST", AGENTS, hog("intruder")),
            ("DELETE", f"{AGENTS}/{agent}", {}),
            ("POST", f"{AGENTS}/{agent}/exec?container=agent&command=x", {}),
            ("GET", f"{AGENTS}/{agent}:{METRICS_PORT}/proxy/", None),
            ("POST", f"{forestall}/serviceaccounts/forestall/token", {"spec": {}}),
            ("PATCH", "/apis/apps/v1/namespaces/forestall/daemonsets/forestall", note),
            ("PATCH", f"{RBAC}/clusterroles/forestall", note),
            # Of its own pod: it would be taken for finished, and be no candidate.
            ("PATCH", f"{TENANT_PODS}/attacker/status", failed),
        )
        for method, path, body in attempts:
            with self.subTest(f"{method} {path}"):
                self.assertEqual(self.request(pod, method, path, body), 403)
        impersonation = {"Impersonate-User": FORESTALL_USER}
        self.assertEqual(self.request(pod, "GET", PODS, None, **impersonation), 403)
        # So the token is one that the server accepts.
        self.assertEqual(self.request(pod, "PATCH", f"{TENANT_PODS}/attacker", note), 200)
        self.assertEqual(container_pids(fixture.lab.api.get(f"{PODS}/neighbour")), neighbour)

    def check_lives(self, neighbours: dict[str, list[int]]) -> None:
        for name, pids in neighbours.items():
            pod = fixture.lab.api.get(f"{PODS}/{name}")
            self.assertEqual(container_pids(pod), pids)
            self.assertNotIn("deletionTimestamp", pod["metadata"])
            self.assertEqual(restarts(pod), 0)

    def test_i4_no_annotation_protects_a_hostile_pod(self) -> None:
        """It is killed before neighbours that use less, as if it had none of them."""
        neighbours = {name: self.neighbour(name, size) for name, size in
                      (("small", 50), ("large", 400))}
        kills = len(self.delays())
        pod = self.hostile(hog("pretender", 1600, 0, "wait"), **ANNOTATIONS)
        self.evicted("pretender", lambda: begin(pod), TENANT_PODS)
        self.assert_prompt(kills + 1, "a pod with 200,000 bytes of annotations")
        self.check_lives(neighbours)

    def test_i5_a_hostile_pod_at_its_own_limit_ends_alone(self) -> None:
        """The kernel ends it. The agent has no reason to act, and its other pods live on."""
        neighbours = {"neighbour": self.neighbour()}
        kills = len(self.delays())
        spec = hog("limited", 200, 0, "wait", restartPolicy="Never")
        spec["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
        pod = self.hostile(spec)
        before = fixture.kernel_kills.read()
        fixture.kernel_kills.expected = f"pod{pod['metadata']['uid']}"
        begin(pod)
        ended = self.wait("limited", lambda each: each["status"]["phase"] == "Failed", "it ends",
                          TENANT_PODS)
        state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((state["reason"], state["exitCode"]), ("OOMKilled", 137))
        self.assertEqual(fixture.kernel_kills.read(), before, "another one than the limited pod")
        self.assertEqual(len(self.delays()), kills)
        self.check_lives(neighbours)

    def test_i6_connections_of_a_hostile_pod_delay_neither_probes_nor_kills(self) -> None:
        """It holds far more connections than the agent accepts at once."""
        attacker = container_pids(self.attacker("attacker"))[0]
        leaker = self.hostile(hog("leaker", 1600, 0, "wait"))
        before, kills, failed = agent_pod(), len(self.delays()), failed_probes()
        address = before["status"]["podIP"]
        crowd = Crowd(attacker, address)
        self.addCleanup(crowd.close)
        self.assertTrue(crowd.full.wait(30), "the connections are made")
        for _ in range(PROBES):
            self.assertEqual(http_answer(address, "GET", "/healthz"), 200)
        self.evicted("leaker", lambda: begin(leaker), TENANT_PODS)
        for _ in range(PROBES):
            self.assertEqual(http_answer(address, "GET", "/readyz"), 200)
        crowd.close()
        report("connections made by the hostile pod", crowd.made)
        self.assertGreater(crowd.made, HELD, "the agent closed none")
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
        self.assert_prompt(kills + 1, "with connections of a hostile pod")
        after = agent_pod()
        self.assertEqual((after["metadata"]["uid"], restarts(after)),
                         (before["metadata"]["uid"], restarts(before)))
        self.assertEqual(failed_probes(), failed)
