#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of Forestall in a real cluster. run.py starts it, in namespaces of its own."""

from __future__ import annotations

import copy
import datetime
import json
import os
import pathlib
import re
import select
import signal
import sys
import tarfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

from lab import (CAP_SYS_RESOURCE, CLUSTER_USER, NODE, TOP, Lab, LabError, host_has, is_ready,
                 run)

MANIFESTS = TOP / "scripts/deploy/kubernetes"
PODS = "/api/v1/namespaces/default/pods"
AGENTS = "/api/v1/namespaces/forestall/pods"
# Of the pods' 1,536 MiB.
THRESHOLD = "256Mi"

lab: Lab
image: pathlib.Path
kernel_kills: KernelKills
started = time.monotonic()


def report(name: str, value: object) -> None:
    print(f"  {name}: {value}", flush=True)


def agent_config(more: str = "") -> str:
    """As the base, but only the lab's pods may be candidates, and for their limit only: on a
    developer's machine the memory of the node is not the lab's."""
    return (f"kubeletConfig: /var/lib/kubelet/config.yaml\n"
            f"pods: {{cgroupRoot: /{lab.cgroups.name}}}\n"
            f"evictionHard: {{allocatableMemory.available: {THRESHOLD}}}\n"
            f"untilOom: {{available: 0%}}\n"
            f"filesystems: {{runtime: unix:///run/containerd/containerd.sock}}\n"
            f"apiUsers: {{podWriters: [{CLUSTER_USER}]}}\n"
            f'metricsAddress: "0.0.0.0:9464"\n{more}')


def write_overlay(folder: pathlib.Path, config: str) -> None:
    """What an operator would write: the image's name, a configuration, and, on a machine that does
    not have it, one capability less."""
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(config)
    base = os.path.relpath(MANIFESTS / "base", folder.resolve())
    patches = []
    if not host_has(CAP_SYS_RESOURCE):
        report("this host has no CAP_SYS_RESOURCE", "the overlay takes it from the agent")
        text = run("kubectl", "kustomize", MANIFESTS / "base")
        added = re.search(r"^\s+add:\n((?:\s+- [A-Z_]+\n)+)", text, re.MULTILINE)[1]
        kept = [each for each in re.findall(r"[A-Z_]+", added) if each != "SYS_RESOURCE"]
        patches.append({"target": {"kind": "DaemonSet"}, "patch": json.dumps([{
            "op": "replace", "value": kept,
            "path": "/spec/template/spec/containers/0/securityContext/capabilities/add"}])})
    (folder / "kustomization.yaml").write_text(json.dumps({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "namespace": "forestall", "resources": [base], "patches": patches,
        "configMapGenerator": [{"name": "forestall", "behavior": "merge",
                                "files": ["config.yaml"]}]}))


def hog(name: str, *arguments: object, **spec: object) -> dict:
    container = {"name": "c", "image": "localhost/hog:1", "imagePullPolicy": "Never",
                 "args": [str(each) for each in arguments]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec}}


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


def ready_since(pod: dict) -> str:
    return next(each["lastTransitionTime"] for each in pod["status"]["conditions"]
                if each["type"] == "Ready")


def seconds_between(earlier: str, later: str) -> float:
    begin, end = (datetime.datetime.fromisoformat(each.replace("Z", "+00:00"))
                  for each in (earlier, later))
    return (end - begin).total_seconds()


def restarts(pod: dict) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses") or [])


def last_end(pod: dict) -> dict:
    """How the container of the pod ended last; {} if it did not."""
    for each in pod["status"].get("containerStatuses") or []:
        for state in ("state", "lastState"):
            if "terminated" in each.get(state, {}):
                return each[state]["terminated"]
    return {}


class KernelKills:
    """Counts kills of the kernel's OOM killer in the lab's cgroups. Their files do not suffice:
    on cgroup v1 the count goes with the victim's cgroup."""

    def __init__(self) -> None:
        self.log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.log, 0, os.SEEK_END)
        self.count = 0

    def read(self) -> int:
        while True:
            try:
                line = os.read(self.log, 8192).decode(errors="replace")
            except BlockingIOError:
                return self.count
            except BrokenPipeError:  # other work on this machine wrote more than the log holds
                report("the kernel's log", "lines were overwritten before they were read")
                continue
            if "oom-kill:" in line and f"/{lab.cgroups.name}/" in line:
                self.count += 1


def process_status(pid: int) -> dict:
    """/proc/PID/status, and the root folder of the process."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: value.strip() for name, value in fields.items()} | {
        "root": pathlib.Path(f"/proc/{pid}/root")}


def features(doctor: str) -> dict[str, str]:
    return {each["feature"]: each["state"] for each in json.loads(doctor)["features"]}


def program_of_image() -> pathlib.Path:
    """The agent's program, to run it outside of a container."""
    program = lab.folder / "forestall"
    if not program.exists():
        with tarfile.open(image) as archive:
            blobs = [each for each in archive.getmembers() if each.name.startswith("blobs/")]
            layer = archive.extractfile(max(blobs, key=lambda each: each.size))
            with tarfile.open(fileobj=layer, mode="r:gz") as files:
                program.write_bytes(files.extractfile("usr/local/sbin/forestall").read())
        program.chmod(0o755)
    return program


def agent_pod() -> dict:
    return lab.api.wait(AGENTS, lambda _, pod: is_ready(pod), "an agent is ready")


class ClusterTest(unittest.TestCase):
    """The tests run in the order of their names, in one cluster with the agent in it."""

    def exec(self, *command: str) -> str:
        return lab.kubectl("-n", "forestall", "exec", "ds/forestall", "--", *command)

    def create(self, pod: dict) -> str:
        """Creates a pod that is deleted after the test, and waits until it runs."""
        name = pod["metadata"]["name"]
        lab.api.call("POST", PODS, pod)
        self.addCleanup(self.delete, name)
        self.wait(name, lambda each: each["status"].get("phase") == "Running", "it runs")
        return name

    def wait(self, name: str, holds, what: str) -> dict:
        return lab.api.wait(PODS, lambda event, pod: holds(pod), f"{name}: {what}",
                            fieldSelector=f"metadata.name={name}")

    def delete(self, name: str) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        try:
            version = lab.api.get(f"{PODS}/{name}")["metadata"]["resourceVersion"]
        except LabError:  # evicted by the test
            return
        lab.api.call("DELETE", f"{PODS}/{name}", body)
        lab.api.wait(PODS, lambda event, _: event == "DELETED", f"{name} is gone",
                     fieldSelector=f"metadata.name={name}", resourceVersion=version)

    def test_1_agent_becomes_ready(self) -> None:
        report("image", lab.import_image(image).strip().splitlines()[0])
        overlay = lab.folder / "overlay"
        write_overlay(overlay, agent_config())
        begun = time.monotonic()
        lab.kubectl("apply", "-k", overlay)
        pod = agent_pod()
        report("apply -k to ready", f"{time.monotonic() - begun:.1f} s")
        self.assertEqual(pod["status"]["qosClass"], "Burstable")
        self.assertEqual(pod["spec"]["priority"], 2000001000)
        self.assertEqual(restarts(pod), 0)

    def test_1b_privileges_and_the_token_are_in_different_processes(self) -> None:
        """As the kernel and the processes' own mounts show it."""
        pod = agent_pod()
        account = "var/run/secrets/kubernetes.io/serviceaccount"
        agent, cluster = (process_status(container_pids(pod, name)[0])
                          for name in ("agent", "cluster"))
        self.assertFalse((agent["root"] / account).exists())
        self.assertTrue((cluster["root"] / account / "token").exists())
        self.assertEqual(cluster["Uid"].split(), [str(CLUSTER_USER)] * 4)
        for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(cluster[name], 16), 0, name)
        for each in (agent, cluster):
            self.assertEqual(each["Seccomp"], "2")
            self.assertEqual(each["NoNewPrivs"], "1")

    def test_2_status_and_doctor_work_in_the_pod(self) -> None:
        """The pod leaves the agent every feature that this host has, but one."""
        self.wait_until_known()
        here = features(run(program_of_image(), "doctor", "-o", "json"))
        there = features(self.exec("forestall", "doctor", "-o", "json", "--cgroup-mount",
                                   "/host/cgroup"))
        self.assertEqual(there["pidfd"], "in-use")
        lost = {name for name, state in here.items() if state == "in-use" != there[name]}
        report("features that the host has and the pod has not", sorted(lost) or "none")
        # /dev/kmsg is not among a container's devices.
        self.assertLessEqual(lost, {"oom-log"})

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

    def evicted(self, name: str, action) -> dict:
        """The pod as it was last, when it was deleted after `action`. It was killed by SIGKILL, and
        none of its containers was started again."""
        version = lab.api.get(f"{PODS}/{name}")["metadata"]["resourceVersion"]
        begun = time.monotonic()
        action()
        pod = lab.api.wait(PODS, lambda event, _: event == "DELETED", f"{name} is deleted",
                           fieldSelector=f"metadata.name={name}", resourceVersion=version)
        report(f"{name}: deleted after", f"{time.monotonic() - begun:.1f} s")
        self.assertEqual(restarts(pod), 0)
        end = last_end(pod)
        self.assertEqual(end["exitCode"], 137)
        # The second one if the kubelet has removed the container before it read its state.
        self.assertIn(end["reason"], ("Error", "ContainerStatusUnknown"))
        self.assertEqual(kernel_kills.read(), 0)
        return pod

    def check_leaker(self, name: str, *arguments: object) -> None:
        """A leaker in a BestEffort pod is killed by the agent and evicted by `forestall cluster`,
        so that the kubelet does not start it again."""
        self.create(hog("bystander", 100, 0))
        self.create(hog(name, *arguments, "wait"))
        self.wait_until_known()
        self.evicted(name, lambda: begin(lab.api.get(f"{PODS}/{name}")))
        log = lab.kubectl("-n", "forestall", "logs", "ds/forestall")
        delays = re.findall(r"crossed_to_signalled_at_most_us=(\d+)", log)
        report(f"{name}: crossing to SIGKILL, at most", f"{delays[-1] if delays else '?'} us")
        self.assertEqual(restarts(lab.api.get(f"{PODS}/bystander")), 0)

    def test_3_kills_a_fast_leaker(self) -> None:
        self.check_leaker("fast", 1600, 0)

    def test_4_kills_a_slow_leaker(self) -> None:
        self.check_leaker("slow", 1600, 5)

    def test_5_kills_the_lower_priority_first(self) -> None:
        """Above their requests the lower priority is killed first, however large the other is."""
        lab.api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                     {"metadata": {"name": "important"}, "value": 1000,
                      "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"})
        self.create(hog("small", 400, 0, restartPolicy="Never"))
        self.create(hog("large", 1000, 2, "wait", priorityClassName="important"))
        self.wait_until_known()
        self.evicted("small", lambda: begin(lab.api.get(f"{PODS}/large")))
        self.assertEqual(restarts(lab.api.get(f"{PODS}/large")), 0)

    def test_6_agent_is_back_after_a_crash(self) -> None:
        pod = agent_pod()
        begun = time.monotonic()
        for pid in container_pids(pod, "agent"):
            os.kill(pid, signal.SIGKILL)
        lab.api.wait(AGENTS, lambda _, each: restarts(each) > restarts(pod) and is_ready(each),
                     "the agent is ready again")
        self.wait_until_known()
        report("agent killed to ready", f"{time.monotonic() - begun:.1f} s")

    def test_7_rollout_leaves_the_node_for_seconds_only(self) -> None:
        """A DaemonSet ends the old agent before it starts the new one. Between them the kubelet
        deletes the old pod, for which 1.20 may wait for a round that it makes once a minute. Ours
        are the time until both processes have ended, and until the new agent is ready."""
        old = agent_pod()
        pidfds = [os.pidfd_open(container_pids(old, name)[0]) for name in ("agent", "cluster")]
        for pidfd in pidfds:
            self.addCleanup(os.close, pidfd)
        lab.kubectl("-n", "forestall", "rollout", "restart", "ds/forestall")
        self.assertTrue(select.select(pidfds, [], [], 60)[0], "the old pod does not end")
        began = time.monotonic()
        for pidfd in pidfds:
            self.assertTrue(select.select([pidfd], [], [], 60)[0], "a process does not end")
        ended = time.monotonic()
        new = lab.api.wait(
            AGENTS, lambda _, each: is_ready(each)
            and each["metadata"]["uid"] != old["metadata"]["uid"], "the new agent is ready")
        ready = seconds_between(new["metadata"]["creationTimestamp"], ready_since(new))
        report("node without an agent in a rollout", f"{time.monotonic() - ended:.1f} s, of which "
               f"{ready:.0f} s are the new pod's")
        self.assertLess(ended - began, 5, "from the end of the first process to the second's")
        self.assertLess(ready, 30)
        self.assertEqual(restarts(new), 0)

    def doctor_without(self, pod: dict, capability: str) -> dict[str, tuple[str, str]]:
        """State and evidence of each feature, in a pod like the agent's without `capability`."""
        spec = copy.deepcopy(pod)
        spec["containers"] = spec["containers"][:1]
        container = spec["containers"][0]
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            del container[probe]
        container["args"] = ["doctor", "-o", "json", "--cgroup-mount", "/host/cgroup"]
        container["securityContext"]["capabilities"]["add"].remove(capability)
        name = f"without-{capability.lower().replace('_', '-')}"
        lab.api.call("POST", AGENTS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                                      "spec": {**spec, "restartPolicy": "Never"}})
        lab.api.wait(AGENTS, lambda _, each: each["status"].get("phase") in ("Succeeded", "Failed"),
                     f"{name} ends", fieldSelector=f"metadata.name={name}")
        doctor = json.loads(lab.kubectl("-n", "forestall", "logs", name))
        return {each["feature"]: (each["state"], each["evidence"]) for each in doctor["features"]}

    def test_8_each_capability_is_needed(self) -> None:
        """Without it, doctor reports a feature as refused. DAC_READ_SEARCH has no such feature: it
        permits open_by_handle_at(), by which the path of a cgroup is found from its id."""
        path = "/apis/apps/v1/namespaces/forestall/daemonsets/forestall"
        pod = lab.api.get(path)["spec"]["template"]["spec"]
        granted = set(pod["containers"][0]["securityContext"]["capabilities"]["add"])
        needed_for = {"BPF": "bpf", "PERFMON": "bpf", "KILL": "pidfd", "IPC_LOCK": "memory-lock",
                      "DAC_OVERRIDE": "cgroup-kill", "SYS_NICE": "sched-fifo",
                      "SYS_RESOURCE": "oom-score-adj"}
        self.assertLessEqual(granted, needed_for.keys() | {"DAC_READ_SEARCH"})
        for capability in sorted(granted & needed_for.keys()):
            with self.subTest(capability):
                state, evidence = self.doctor_without(pod, capability)[needed_for[capability]]
                self.assertEqual(state, "refused", evidence)
                if capability == "SYS_NICE":  # with it, nice -20 replaces a refused SCHED_FIFO
                    self.assertIn("stays at nice 0", evidence)

    def test_9_faults_do_not_stop_the_agent(self) -> None:
        """With the API server stopped, and `forestall cluster` killed, the agent kills by the facts
        that it has. Both recover by themselves."""
        self.create(hog("patient", 1600, 0, "wait", restartPolicy="Never"))
        known = self.wait_until_known()
        leaker = container_pids(lab.api.get(f"{PODS}/patient"))[0]
        old = agent_pod()
        server = lab.services["kube-apiserver"].process.pid
        pidfd = os.pidfd_open(leaker)
        self.addCleanup(os.close, pidfd)
        os.kill(server, signal.SIGSTOP)
        try:
            for pid in container_pids(old, "cluster"):
                os.kill(pid, signal.SIGKILL)
            os.kill(leaker, signal.SIGUSR1)
            self.assertTrue(select.select([pidfd], [], [], 30)[0], "the leaker is not killed")
            self.assertEqual(self.pods_of_agent().get("known"), known)
        finally:
            os.kill(server, signal.SIGCONT)
        self.assertEqual(kernel_kills.read(), 0)
        lab.api.wait(AGENTS, lambda _, each: restarts(each) > restarts(old) and is_ready(each),
                     "`forestall cluster` is back")
        self.create(hog("later", 1, 0))
        self.wait_until_known()

    def test_a_disruption_budget_does_not_keep_a_killed_pod(self) -> None:
        """As the kubelet under pressure, `--pdb ignore` deletes the pod that a budget protects."""
        lab.api.call("POST", "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets", {
            "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "one"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}})
        pod = hog("guarded", 1600, 0, "wait")
        pod["metadata"]["labels"] = {"app": "guarded"}
        self.create(pod)
        self.wait_until_known()
        self.evicted("guarded", lambda: begin(lab.api.get(f"{PODS}/guarded")))


class Result(unittest.TextTestResult):
    """Also collects what JUnit's format needs: each test with its time and its failure."""

    def __init__(self, *arguments, **more) -> None:
        super().__init__(*arguments, **more)
        self.suite = ElementTree.Element("testsuite", name="cluster", tests="0")

    def startTest(self, test) -> None:
        super().startTest(test)
        self.begun = time.monotonic()
        self.case = ElementTree.SubElement(self.suite, "testcase",
                                           name=test.id().rsplit(".", 1)[-1])
        self.suite.set("tests", str(int(self.suite.get("tests")) + 1))

    def stopTest(self, test) -> None:
        super().stopTest(test)
        self.case.set("time", f"{time.monotonic() - self.begun:.1f}")

    def _failed(self, error) -> None:
        ElementTree.SubElement(self.case, "failure").text = str(error[1])

    def addFailure(self, test, error) -> None:
        super().addFailure(test, error)
        self._failed(error)

    def addError(self, test, error) -> None:
        super().addError(test, error)
        if isinstance(test, unittest.TestCase):
            self._failed(error)


def main() -> int:
    global lab, image, kernel_kills
    folder, cache, name, archive, junit, *tests = sys.argv[1:]
    image = pathlib.Path(archive)
    lab = Lab(pathlib.Path(folder), pathlib.Path(cache), name)
    try:
        lab.start()
        kernel_kills = KernelKills()
        report(f"cluster with node {NODE} is up", f"{time.monotonic() - started:.1f} s")
        runner = unittest.TextTestRunner(sys.stdout, verbosity=2, resultclass=Result)
        names = tests or unittest.TestLoader().getTestCaseNames(ClusterTest)
        result = runner.run(unittest.TestSuite(ClusterTest(each) for each in names))
        if junit:
            ElementTree.ElementTree(result.suite).write(junit)
        if not result.wasSuccessful():
            (lab.folder / "agent.log").write_text(
                lab.kubectl("-n", "forestall", "logs", "ds/forestall"))
        return 0 if result.wasSuccessful() else 1
    except LabError as error:
        for service in lab.services.values():
            print(f"== end of {service.log}\n{service.tail()}")
        print(f"FAILED {error}")
        return 1
    finally:
        lab.stop()


if __name__ == "__main__":
    sys.exit(main())
