# SPDX-License-Identifier: Apache-2.0
"""The agent as its manifests deploy it: privileges, kills, restarts, faults."""

from __future__ import annotations

import copy
import json
import os
import re
import select
import signal
import time

import fixture
from fixture import (AGENTS, CONTAINERS, MANIFESTS, NODES, PODS, ClusterCase, agent_config,
                     agent_pod, begin, container_pids, features, hog, process_status,
                     program_of_image, ready_since, report, restarts, seconds_between,
                     write_overlay)
from lab import CLUSTER_USER, NODE, is_ready, run


class AgentTests(ClusterCase):
    def test_1_agent_becomes_ready(self) -> None:
        report("image", fixture.lab.import_image(fixture.image).strip().splitlines()[0])
        overlay = fixture.lab.folder / "overlay"
        write_overlay(overlay, agent_config())
        begun = time.monotonic()
        fixture.lab.kubectl("apply", "-k", overlay)
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

    def test_3_kills_a_fast_leaker(self) -> None:
        self.check_leaker("fast", 1600, 0)

    def test_4_kills_a_slow_leaker(self) -> None:
        self.check_leaker("slow", 1600, 5)

    def test_5_kills_the_lower_priority_first(self) -> None:
        """Above their requests the lower priority is killed first, however large the other is."""
        fixture.lab.api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                             {"metadata": {"name": "important"}, "value": 1000,
                              "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"})
        self.create(hog("small", 400, 0, restartPolicy="Never"))
        self.create(hog("large", 1000, 2, "wait", priorityClassName="important"))
        self.wait_until_known()
        self.evicted("small", lambda: begin(fixture.lab.api.get(f"{PODS}/large")))
        self.assertEqual(restarts(fixture.lab.api.get(f"{PODS}/large")), 0)

    def test_6_agent_is_back_after_a_crash(self) -> None:
        pod = agent_pod()
        begun = time.monotonic()
        for pid in container_pids(pod, "agent"):
            os.kill(pid, signal.SIGKILL)
        fixture.lab.api.wait(
            AGENTS, lambda _, each: restarts(each) > restarts(pod) and is_ready(each),
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
        fixture.lab.kubectl("-n", "forestall", "rollout", "restart", "ds/forestall")
        self.assertTrue(select.select(pidfds, [], [], 60)[0], "the old pod does not end")
        began = time.monotonic()
        for pidfd in pidfds:
            self.assertTrue(select.select([pidfd], [], [], 60)[0], "a process does not end")
        ended = time.monotonic()
        new = fixture.lab.api.wait(
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
        fixture.lab.api.call("POST", AGENTS, {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {**spec, "restartPolicy": "Never"}})
        fixture.lab.api.wait(
            AGENTS, lambda _, each: each["status"].get("phase") in ("Succeeded", "Failed"),
            f"{name} ends", fieldSelector=f"metadata.name={name}")
        doctor = json.loads(fixture.lab.kubectl("-n", "forestall", "logs", name))
        return {each["feature"]: (each["state"], each["evidence"]) for each in doctor["features"]}

    def test_8_each_capability_is_needed(self) -> None:
        """Without it, doctor reports a feature as refused. DAC_READ_SEARCH has no such feature: see
        the next test."""
        path = "/apis/apps/v1/namespaces/forestall/daemonsets/forestall"
        pod = fixture.lab.api.get(path)["spec"]["template"]["spec"]
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

    def oom_kill_line(self, name: str) -> tuple[str, str]:
        """UID of a pod that the kernel ends at its own limit, and the agent's line about it."""
        pod = hog(name, 200, 0, "wait", restartPolicy="Never")
        pod["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
        self.create(pod)
        self.wait_until_known()
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        uid = pod["metadata"]["uid"]
        fixture.kernel_kills.read()
        fixture.kernel_kills.expected = f"pod{uid}"
        known = self.oom_kill_lines()
        begin(pod)
        self.wait_for(lambda: len(self.oom_kill_lines()) > len(known), "the agent's line")
        return uid, self.oom_kill_lines()[len(known)]

    def oom_kill_lines(self) -> list[str]:
        log = fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "agent")
        return re.findall(r"event=kernel-oom-kill .*", log)

    def test_8b_without_dac_read_search_the_cgroup_of_an_oom_kill_is_unknown(self) -> None:
        uid, line = self.oom_kill_line("limited-1")
        self.assertRegex(line, rf" cgroup=\S*/pod{uid}")
        event = fixture.lab.api.wait(
            "/api/v1/namespaces/default/events", lambda *_: True, "an Event of the OOM kill",
            fieldSelector=f"involvedObject.uid={uid},reason=KernelOOMKilled,source=forestall")
        report("Event of a kernel OOM kill", event["message"])
        self.assertIn("limit", event["message"])
        path = "/apis/apps/v1/namespaces/forestall/daemonsets/forestall"
        spec = fixture.lab.api.get(path)["spec"]["template"]["spec"]
        granted = spec["containers"][0]["securityContext"]["capabilities"]["add"]
        self.addCleanup(self.grant, granted)
        self.grant([each for each in granted if each != "DAC_READ_SEARCH"])
        _, line = self.oom_kill_line("limited-2")
        self.assertIn(" cgroup=unknown", line)

    def grant(self, capabilities: list[str]) -> None:
        """An agent with these capabilities replaces the present one."""
        old = agent_pod()["metadata"]["uid"]
        fixture.lab.api.call(
            "PATCH", "/apis/apps/v1/namespaces/forestall/daemonsets/forestall",
            [{"op": "replace", "value": capabilities,
              "path": f"{CONTAINERS}/0/securityContext/capabilities/add"}],
            "application/json-patch+json")
        fixture.lab.api.wait(AGENTS, lambda _, each: is_ready(each)
                             and each["metadata"]["uid"] != old, "the next agent is ready")
        self.wait_until_known()

    def test_9_faults_do_not_stop_the_agent(self) -> None:
        """With the API server stopped, and `forestall cluster` killed, the agent kills by the facts
        that it has. Both recover by themselves."""
        self.create(hog("patient", 1600, 0, "wait", restartPolicy="Never"))
        known = self.wait_until_known()
        kills = len(self.delays())
        leaker = container_pids(fixture.lab.api.get(f"{PODS}/patient"))[0]
        old = agent_pod()
        server = fixture.lab.services["kube-apiserver"].process.pid
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
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
        fixture.lab.api.wait(
            AGENTS, lambda _, each: restarts(each) > restarts(old) and is_ready(each),
            "`forestall cluster` is back")
        self.assert_prompt(kills + 1, "API server stopped, `forestall cluster` killed")
        self.create(hog("later", 1, 0))
        self.wait_until_known()

    def test_a_disruption_budget_does_not_keep_a_killed_pod(self) -> None:
        """As the kubelet under pressure, `--pdb ignore` deletes the pod that a budget protects."""
        budgets = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
        fixture.lab.api.call("POST", budgets, {
            "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "one"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}})
        pod = hog("guarded", 1600, 0, "wait")
        pod["metadata"]["labels"] = {"app": "guarded"}
        self.create(pod)
        self.wait_until_known()
        self.evicted("guarded", lambda: begin(fixture.lab.api.get(f"{PODS}/guarded")))

    def cluster_log(self) -> str:
        return fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "cluster")

    def test_a2_a_later_pod_of_the_same_name_lives(self) -> None:
        """The killed pod is deleted and made again before its eviction is requested."""
        name = self.create(hog("again", 1600, 0, "wait", restartPolicy="Never"))
        self.wait_until_known()
        kills = len(self.delays())
        old = fixture.lab.api.get(f"{PODS}/{name}")
        leaker = container_pids(old)[0]
        cluster = container_pids(agent_pod(), "cluster")[0]
        os.kill(cluster, signal.SIGSTOP)
        try:
            with self.exits(leaker, "the leaker is killed"):
                os.kill(leaker, signal.SIGUSR1)
            self.delete(name)
            self.create(hog(name, 1, 0))
        finally:
            os.kill(cluster, signal.SIGCONT)
        ended = rf"eviction.*pod=default/{name}.*uid={old['metadata']['uid']}.*state=gone"
        self.wait_for(lambda: re.search(ended, self.cluster_log()), "the eviction ends")
        self.wait_until_known()
        new = fixture.lab.api.get(f"{PODS}/{name}")
        self.assertNotEqual(new["metadata"]["uid"], old["metadata"]["uid"])
        self.assertNotIn("deletionTimestamp", new["metadata"])
        self.assertEqual(restarts(new), 0)
        self.assert_prompt(kills + 1, "pod made again")

    def test_a3_the_eviction_is_requested_until_the_server_answers(self) -> None:
        """etcd is stopped, so that the API server does not answer. The kill does not wait; the pod
        is evicted when etcd runs again."""
        name = self.create(hog("late", 1600, 0, "wait", restartPolicy="Never"))
        self.wait_until_known()
        kills = len(self.delays())
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        leaker = container_pids(pod)[0]
        etcd = fixture.lab.services["etcd"].process.pid
        os.kill(etcd, signal.SIGSTOP)
        try:
            with self.exits(leaker, "the leaker is killed"):
                os.kill(leaker, signal.SIGUSR1)
        finally:
            os.kill(etcd, signal.SIGCONT)
        fixture.lab.api.wait(PODS, lambda event, _: event == "DELETED", f"{name} is deleted",
                             fieldSelector=f"metadata.name={name}",
                             resourceVersion=pod["metadata"]["resourceVersion"])
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
        self.assert_prompt(kills + 1, "etcd stopped")

    def test_a4_works_after_restarts_of_everything(self) -> None:
        """Runtime, kubelet and API server are started again, then both processes at once."""
        self.create(hog("survivor", 100, 0))
        self.create(hog("persistent", 1600, 0, "wait"))
        for service in ("containerd", "kubelet", "kube-apiserver"):
            fixture.lab.restart_service(service)
        self.wait_for(lambda: is_ready(fixture.lab.api.get(f"{NODES}/{NODE}")), "the node is ready")
        old = agent_pod()
        for pid in container_pids(old, "agent") + container_pids(old, "cluster"):
            os.kill(pid, signal.SIGKILL)
        fixture.lab.api.wait(
            AGENTS, lambda _, each: restarts(each) >= restarts(old) + 2 and is_ready(each),
            "both processes are back")
        self.wait_until_known()
        self.evicted("persistent", lambda: begin(fixture.lab.api.get(f"{PODS}/persistent")))
        self.assertEqual(restarts(fixture.lab.api.get(f"{PODS}/survivor")), 0)
        self.assert_prompt(1, "after restarts of everything")
