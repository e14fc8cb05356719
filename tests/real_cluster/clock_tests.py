# SPDX-License-Identifier: Apache-2.0
"""The clock of the node is set while both processes run: back and forth by hours.

The cluster shares this machine's clock, which no test may change. So the two processes have a
library (clock.c) that gives them another time of day. Their time since the boot is the kernel's, as
on a machine on which the clock is set. The API server has the right time."""

from __future__ import annotations

import datetime
import pathlib
import re
import sys
import time

import fixture
from fixture import (AGENTS, CONTAINERS, NODES, PODS, ClusterCase, agent_pod, begin,
                     container_pids, hog, pressure, report, restarts)
from lab import HERE, NODE, is_ready, run

DAEMON_SET = "/apis/apps/v1/namespaces/forestall/daemonsets/forestall"
# Of the containers.
PLACE = "/clock"
ENVIRONMENT = {"LD_PRELOAD": f"{PLACE}/clock.so", "CLOCK_OFFSET": f"{PLACE}/offset"}
# Before the right time the certificate of the API server, made by this run, is not valid yet.
FIRST = 5
STEPS = {"set back by 5 hours": 0, "set forth by 3 hours": 3}


class ClockTests(ClusterCase):
    def make_clock(self) -> pathlib.Path:
        """The folder with the library and the file of the offset."""
        folder = fixture.lab.folder / "clock"
        folder.mkdir(exist_ok=True)
        run("gcc", "-shared", "-fPIC", "-O1", "-o", folder / "clock.so", HERE / "clock.c")
        (folder / "offset").write_bytes(bytes(8))
        for each in (folder, *folder.iterdir()):
            each.chmod(0o755)
        return folder

    @staticmethod
    def set_clock(folder: pathlib.Path, hours: int) -> None:
        """At once: both processes have mapped the file."""
        with (folder / "offset").open("r+b", buffering=0) as file:
            file.write((hours * 3600).to_bytes(8, sys.byteorder, signed=True))

    def use_clock(self, folder: pathlib.Path) -> None:
        """An agent and a `forestall cluster` with this clock, until the end of the test."""
        spec = fixture.lab.api.get(DAEMON_SET)["spec"]["template"]["spec"]
        mount = {"name": "clock", "mountPath": PLACE, "readOnly": True}
        volume = {"name": "clock", "hostPath": {"path": str(folder), "type": "Directory"}}
        environment = [{"name": name, "value": value} for name, value in ENVIRONMENT.items()]
        patch = [{"op": "add", "path": "/spec/template/spec/volumes/-", "value": volume}]
        for number, container in enumerate(spec["containers"]):
            patch += [
                {"op": "add", "path": f"{CONTAINERS}/{number}/volumeMounts/-", "value": mount},
                {"op": "add", "path": f"{CONTAINERS}/{number}/env",
                 "value": container.get("env", []) + environment}]
        self.addCleanup(self.replace, [
            {"op": "replace", "path": "/spec/template/spec", "value": spec}])
        self.replace(patch)

    def replace(self, patch: list[dict]) -> None:
        """The agent, by one of the changed DaemonSet."""
        old = agent_pod()["metadata"]["uid"]
        fixture.lab.api.call("PATCH", DAEMON_SET, patch, "application/json-patch+json")
        fixture.lab.api.wait(AGENTS, lambda _, each: is_ready(each)
                             and each["metadata"]["uid"] != old, "the next agent is ready")
        self.wait_until_known()

    def log_of_eviction(self, uid: str) -> str:
        log = fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "cluster")
        return next((line for line in log.splitlines()
                     if re.search(rf"event=eviction .*uid={uid} state=", line)), "")

    def check_leak(self, number: int, hours: int, what: str) -> None:
        """The leaker is killed at once and evicted, by processes that have this time."""
        name = self.create(hog(f"leaker{number}", 1600, 0, "wait"))
        self.wait_until_known()
        kills = len(self.delays())
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        node = fixture.lab.api.get(f"{NODES}/{NODE}")["metadata"]["resourceVersion"]
        last = self.evicted(name, lambda: begin(pod))
        self.assertEqual(last["metadata"]["uid"], pod["metadata"]["uid"])
        line = self.log_of_eviction(pod["metadata"]["uid"])
        self.assertIn("state=gone", line)
        written = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00"))
        self.assertAlmostEqual((written.timestamp() - time.time()) / 3600, hours, delta=0.2,
                               msg="the clock of `forestall cluster`")
        delay = self.assert_prompt(kills + 1, what)
        report(f"clock {what}: crossing to SIGKILL, at most", f"{delay} us")
        self.wait_for_pressure(("True", True), node)
        self.wait_for_pressure(("False", False), node)

    @staticmethod
    def wait_for_pressure(state: tuple[str, bool], version: str) -> None:
        fixture.lab.api.wait(NODES, lambda _, node: pressure(node) == state, f"pressure {state}",
                             fieldSelector=f"metadata.name={NODE}", resourceVersion=version)

    def test_a9_a_clock_that_is_set_delays_no_kill_and_hurts_no_other_pod(self) -> None:
        folder = self.make_clock()
        self.set_clock(folder, FIRST)
        self.use_clock(folder)
        self.create(hog("innocent", 100, 0))
        innocent = container_pids(fixture.lab.api.get(f"{PODS}/innocent"))
        agent = agent_pod()
        for number, (what, hours) in enumerate(STEPS.items()):
            self.set_clock(folder, hours)
            self.check_leak(number, hours, what)
        after = agent_pod()
        self.assertEqual((after["metadata"]["uid"], restarts(after)),
                         (agent["metadata"]["uid"], restarts(agent)))
        pod = fixture.lab.api.get(f"{PODS}/innocent")
        self.assertEqual((container_pids(pod), restarts(pod)), (innocent, 0))
