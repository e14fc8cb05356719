# SPDX-License-Identifier: Apache-2.0
"""What the tests in the real cluster share: the cluster, the image, pods that fill memory, and the
programs of the image outside of a container."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import re
import select
import signal
import tarfile
import time
import unittest

from lab import (CAP_SYS_RESOURCE, CLUSTER_USER, NODE, PATIENCE, TOP, Lab, LabError, host_has,
                 is_ready, run)

MANIFESTS = TOP / "scripts/deploy/kubernetes"
PODS = "/api/v1/namespaces/default/pods"
AGENTS = "/api/v1/namespaces/forestall/pods"
NODES = "/api/v1/nodes"
# Of the DaemonSet, for patches.
CONTAINERS = "/spec/template/spec/containers"
CONDITION = "ForestallMemoryPressure"
TAINT = "forestall.dev/memory-pressure"
# The only namespace in which annotations of pods have an effect.
ANNOTATING = "annotating"
# Of the node's condition.
TRANSITION = 10
# Of the pods' 1,536 MiB.
THRESHOLD = "256Mi"
# From the crossing to SIGKILL, at most. An idle machine needs 1 to 2 ms; this leaves room for
# compilers on the same two CPUs. A kill that waited for the API server would take seconds.
SIGNAL_US_MAX = 10_000

# Set by use().
lab: Lab
image: pathlib.Path
kernel_kills: KernelKills


def use(the_lab: Lab, the_image: pathlib.Path) -> None:
    global lab, image, kernel_kills
    lab, image, kernel_kills = the_lab, the_image, KernelKills()


def report(name: str, value: object) -> None:
    print(f"  {name}: {value}", flush=True)


def agent_config(more: str = "") -> str:
    """As the base, but only the lab's pods may be candidates, and in effect for their limit only:
    on a developer's machine the memory of the node is not the lab's."""
    return (f"kubeletConfig: /var/lib/kubelet/config.yaml\n"
            f"pods: {{cgroupRoot: /{lab.cgroups.name}}}\n"
            f"evictionHard: {{allocatableMemory.available: {THRESHOLD}, memory.available: 1Mi}}\n"
            f"untilOom: {{available: 0%}}\n"
            f"evictionPressureTransitionPeriod: {TRANSITION}s\n"
            f"filesystems: {{runtime: unix:///run/containerd/containerd.sock}}\n"
            f"apiUsers: {{podWriters: [{CLUSTER_USER}]}}\n"
            f"podAnnotations: {{protected: [{ANNOTATING}], prefer: [{ANNOTATING}], "
            f"avoid: [{ANNOTATING}]}}\n"
            f'metricsAddress: "0.0.0.0:9464"\n{more}')


def capability_patches() -> list[dict]:
    """Of an overlay: without the capability that this host does not have."""
    if host_has(CAP_SYS_RESOURCE):
        return []
    report("this host has no CAP_SYS_RESOURCE", "the overlay takes it from the agent")
    text = run("kubectl", "kustomize", MANIFESTS / "base")
    added = re.search(r"^\s+add:\n((?:\s+- [A-Z_]+\n)+)", text, re.MULTILINE)[1]
    kept = [each for each in re.findall(r"[A-Z_]+", added) if each != "SYS_RESOURCE"]
    return [{"target": {"kind": "DaemonSet"}, "patch": json.dumps([{
        "op": "replace", "value": kept,
        "path": f"{CONTAINERS}/0/securityContext/capabilities/add"}])}]


def write_overlay(folder: pathlib.Path, config: str) -> None:
    """What an operator would write: a configuration, the taint, and, on a machine that does not
    have it, one capability less."""
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(config)
    base = os.path.relpath(MANIFESTS / "base", folder.resolve())
    patches = [{"target": {"kind": "DaemonSet"}, "patch": json.dumps([
        {"op": "add", "path": f"{CONTAINERS}/1/args/-", "value": "--taint"}])},
        *capability_patches()]
    (folder / "kustomization.yaml").write_text(json.dumps({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "namespace": "forestall", "resources": [base], "patches": patches,
        "configMapGenerator": [{"name": "forestall", "behavior": "merge",
                                "files": ["config.yaml"]}]}))


def hog(name: str, *arguments: object, **spec: object) -> dict:
    container = {"name": "c", "image": "localhost/hog:1", "imagePullPolicy": "Never",
                 "args": [str(each) for each in arguments]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container],
                     "tolerations": [{"key": TAINT, "operator": "Exists"}], **spec}}


def container_pids(pod: dict, container: str = "") -> list[int]:
    """Processes of a container of a pod; by default of its only one."""
    statuses = [each for each in pod["status"]["containerStatuses"]
                if not container or each["name"] == container]
    identity = statuses[0]["containerID"].removeprefix("containerd://")
    root = pathlib.Path("/sys/fs/cgroup/memory") / lab.cgroups.name / "kubepods"
    return [int(pid) for file in root.rglob(f"{identity}/cgroup.procs")
            for pid in file.read_text().split()]


def begin(pod: dict) -> None:
    """Lets a hog that waits fill its memory."""
    for pid in container_pids(pod):
        os.kill(pid, signal.SIGUSR1)


def pressure(node: dict) -> tuple[str, bool]:
    """Status of the agent's condition, and whether the node has the agent's taint."""
    status = [each["status"] for each in node["status"]["conditions"]
              if each["type"] == CONDITION]
    taints = [each["key"] for each in node["spec"].get("taints") or []]
    return status[0] if status else "", TAINT in taints


def ready_since(pod: dict) -> str:
    return next(each["lastTransitionTime"] for each in pod["status"]["conditions"]
                if each["type"] == "Ready")


def seconds_between(earlier: str, later: str) -> float:
    begin, end = (datetime.datetime.fromisoformat(each.replace("Z", "+00:00"))
                  for each in (earlier, later))
    return (end - begin).total_seconds()


def restarts(pod: dict) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses") or [])


def could_not_start(state: dict) -> bool:
    """The runtime could not start the container."""
    reasons = {state.get(kind, {}).get("reason") for kind in ("terminated", "waiting")}
    return bool(reasons & {"ContainerCannotRun", "StartError", "RunContainerError"})


def ran_again(pod: dict) -> bool:
    """Whether a container ran once more after it had ended. A kubelet of 1.20 may create one if the
    deletion comes while it handles the end, and counts that as a restart. It has removed the pod's
    volumes by then, so the runtime cannot start it. A restart that is not seen to have failed so
    counts as a run."""
    return any(each["restartCount"] > sum(could_not_start(each.get(state, {}))
                                          for state in ("state", "lastState"))
               for each in pod["status"].get("containerStatuses") or [])


def last_end(pod: dict) -> dict:
    """How the container of the pod ended last; {} if it did not."""
    for each in pod["status"].get("containerStatuses") or []:
        for state in ("state", "lastState"):
            if "terminated" in each.get(state, {}) and not could_not_start(each[state]):
                return each[state]["terminated"]
    return {}


class KernelKills:
    """Counts kills of the kernel's OOM killer in the lab's cgroups. Their files do not suffice:
    on cgroup v1 the count goes with the victim's cgroup. `expected`: the cgroup of a pod that the
    kernel is to kill, so that its kills are not counted. `lines`: of those counted since begin(),
    so that one test's kills do not fail the later ones."""

    def __init__(self) -> None:
        self.log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.log, 0, os.SEEK_END)
        self.lines: list[str] = []
        self.expected = ""

    def begin(self) -> None:
        """Those before were after the end of a test: they fail the one that begins."""
        earlier = len(self.lines)
        if self.read() > earlier:
            report("killed by the kernel between two tests", self.lines[earlier:])
        self.lines = self.lines[earlier:]

    def read(self) -> int:
        while True:
            try:
                line = os.read(self.log, 8192).decode(errors="replace")
            except BlockingIOError:
                return len(self.lines)
            except BrokenPipeError:  # other work on this machine wrote more than the log holds
                report("the kernel's log", "lines were overwritten before they were read")
                continue
            if "oom-kill:" in line and f"/{lab.cgroups.name}/" in line:
                if not self.expected or self.expected not in line:
                    self.lines.append(line)


def evicted_by_kubelet() -> list[str]:
    """Pods, by their Events."""
    events = lab.api.get("/api/v1/events?fieldSelector=reason%3DEvicted%2Csource%3Dkubelet")
    return [each["involvedObject"]["name"] for each in events["items"]]


def process_status(pid: int) -> dict:
    """/proc/PID/status, and the root folder of the process."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: value.strip() for name, value in fields.items()} | {
        "root": pathlib.Path(f"/proc/{pid}/root")}


def features(doctor: str) -> dict[str, str]:
    return {each["feature"]: each["state"] for each in json.loads(doctor)["features"]}


def program_of_image(name: str = "sbin/forestall") -> pathlib.Path:
    """A program of the image, to run it outside of a container."""
    tree = lab.folder / "image"
    if not tree.exists():
        with tarfile.open(image) as archive:
            blobs = [each for each in archive.getmembers() if each.name.startswith("blobs/")]
            layer = archive.extractfile(max(blobs, key=lambda each: each.size))
            with tarfile.open(fileobj=layer, mode="r:gz") as files:
                files.extractall(tree, [each for each in files.getmembers()
                                        if each.name.startswith("usr/local/")])
    return tree / "usr/local" / name


def plugin(*command: object) -> str:
    """Output of `kubectl forestall`, found by kubectl as any plugin."""
    folder = lab.folder / "plugins"
    if not folder.exists():
        folder.mkdir()
        (folder / "kubectl-forestall").symlink_to(program_of_image())
    return lab.kubectl("forestall", *command, plugins=folder)


def agent_pod() -> dict:
    return lab.api.wait(AGENTS, lambda _, pod: is_ready(pod), "an agent is ready")


@contextlib.contextmanager
def ended_processes(pod: dict):
    """After the block the processes of the pod end. The API shows a forced deletion before, and
    their memory would count in the next test."""
    with contextlib.ExitStack() as files:
        pidfds = []
        for status in pod["status"].get("containerStatuses") or []:
            pids = container_pids(pod, status["name"]) if status.get("containerID") else []
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    pidfds.append(os.pidfd_open(pid))
                    files.callback(os.close, pidfds[-1])
        yield
        for each in pidfds:
            if not select.select([each], [], [], PATIENCE)[0]:
                raise LabError(f"not within {PATIENCE} s: {pod['metadata']['name']} ends")


def wait_for_usage(name: str, size: int) -> None:
    """Waits until the kubelet's statistics of the pod have this size."""
    deadline = time.monotonic() + PATIENCE
    while size > max((pod.get("memory", {}).get("workingSetBytes", 0) for pod in lab.api.get(
            f"{NODES}/{NODE}/proxy/stats/summary")["pods"] if pod["podRef"]["name"] == name),
                     default=0):
        if time.monotonic() > deadline:
            raise LabError(f"not within {PATIENCE} s: {name} has {size} bytes")
        time.sleep(0.2)


class ClusterCase(unittest.TestCase):
    """The tests run in the order of their names, in one cluster with the agent in it."""

    def setUp(self) -> None:
        kernel_kills.begin()

    def tearDown(self) -> None:
        self.assertEqual(kernel_kills.read(), 0, kernel_kills.lines)

    def exec(self, *command: str) -> str:
        return lab.kubectl("-n", "forestall", "exec", "ds/forestall", "--", *command)

    def create(self, pod: dict, pods: str = PODS) -> str:
        """Creates a pod that is deleted after the test, and waits until it runs. `pods`: the path
        of those of its namespace."""
        name = pod["metadata"]["name"]
        lab.api.call("POST", pods, pod)
        self.addCleanup(self.delete, name, pods)
        self.wait(name, lambda each: each["status"].get("phase") == "Running", "it runs", pods)
        return name

    def wait(self, name: str, holds, what: str, pods: str = PODS) -> dict:
        return lab.api.wait(pods, lambda event, pod: holds(pod), f"{name}: {what}",
                            fieldSelector=f"metadata.name={name}")

    def delete(self, name: str, pods: str = PODS) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        # Not that of the pod: it may be too old for an API server that was started again.
        version = lab.api.get(pods)["metadata"]["resourceVersion"]
        try:
            pod = lab.api.get(f"{pods}/{name}")
        except LabError:  # evicted by the test
            return
        with ended_processes(pod):
            lab.api.call("DELETE", f"{pods}/{name}", body)
            lab.api.wait(pods, lambda event, _: event == "DELETED", f"{name} is gone",
                         fieldSelector=f"metadata.name={name}", resourceVersion=version)

    def pods_of_agent(self) -> dict:
        """What the agent has of the pods. Not by kubectl, so that it needs no API server."""
        return json.loads(run(program_of_image(), "status", "-o", "json"))["pods"]

    def wait_until_known(self) -> int:
        """Waits until the agent has the facts of all pods from the API server; their number."""
        pods = lab.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}")["items"]
        count = sum(each["status"]["phase"] not in ("Succeeded", "Failed") for each in pods)
        deadline = time.monotonic() + 30
        while True:
            pods = self.pods_of_agent()
            if pods.get("known") == count and not pods.get("inferred"):
                return count
            self.assertLess(time.monotonic(), deadline, f"{count} pods; {pods}")

    def evicted(self, name: str, action, pods: str = PODS) -> dict:
        """The pod as it was last, when it was deleted after `action`. It was killed by SIGKILL, and
        none of its containers was started again."""
        version = lab.api.get(pods)["metadata"]["resourceVersion"]
        begun = time.monotonic()
        action()
        ends = []

        def is_over(event: str, pod: dict) -> bool:
            ends.append(last_end(pod))
            return event == "DELETED"
        pod = lab.api.wait(pods, is_over, f"{name} is deleted",
                           fieldSelector=f"metadata.name={name}", resourceVersion=version)
        report(f"{name}: deleted after", f"{time.monotonic() - begun:.1f} s")
        self.assertFalse(ran_again(pod), pod["status"].get("containerStatuses"))
        # The last status may have two later containers that could not start.
        end = next(filter(None, reversed(ends)), {})
        self.assertEqual(end.get("exitCode"), 137, pod["status"])
        # The second one if the kubelet has removed the container before it read its state.
        self.assertIn(end["reason"], ("Error", "ContainerStatusUnknown"))
        self.assertEqual(kernel_kills.read(), 0, kernel_kills.lines)
        self.assertEqual(evicted_by_kubelet(), [])
        return pod

    def check_leaker(self, name: str, *arguments: object) -> None:
        """A leaker in a BestEffort pod is killed by the agent and evicted by `forestall cluster`,
        so that the kubelet does not start it again."""
        self.create(hog("bystander", 100, 0))
        self.create(hog(name, *arguments, "wait"))
        self.wait_until_known()
        self.evicted(name, lambda: begin(lab.api.get(f"{PODS}/{name}")))
        report(f"{name}: crossing to SIGKILL, at most", f"{self.delays()[-1]} us")
        self.assertEqual(restarts(lab.api.get(f"{PODS}/bystander")), 0)

    def delays(self) -> list[int]:
        """Of each kill of this agent, from the crossing to SIGKILL at most, in us."""
        log = lab.kubectl("-n", "forestall", "logs", "ds/forestall")
        return [int(each) for each in re.findall(r"crossed_to_signalled_at_most_us=(\d+)", log)]

    def assert_prompt(self, count: int, what: str) -> int:
        """The last of `count` kills of this agent was not late; its delay in us."""
        delays = self.delays()
        self.assertEqual(len(delays), count, what)
        self.assertLess(delays[-1], SIGNAL_US_MAX, f"us from the crossing to SIGKILL: {what}")
        return delays[-1]

    def wait_for(self, holds, what: str) -> None:
        """For what neither the API nor the kernel reports as an event."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"not within {PATIENCE} s: {what}")
            time.sleep(0.2)

    @contextlib.contextmanager
    def exits(self, pid: int, what: str):
        """The process exits within 30 s after the end of the block."""
        pidfd = os.pidfd_open(pid)
        try:
            yield
            self.assertTrue(select.select([pidfd], [], [], 30)[0], f"not within 30 s: {what}")
        finally:
            os.close(pidfd)
