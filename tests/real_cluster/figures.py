# SPDX-License-Identifier: Apache-2.0
"""run.py --runs N: leakers, some with the agent and some with the kubelet alone, each counted. A
pod that leaks nothing runs with each of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import select
import statistics
import time

import fixture
from fixture import (AGENTS, CONDITION, NODES, PODS, SIGNAL_US_MAX, THRESHOLD, agent_config,
                     agent_pod, hog, ran_again, report, restarts, write_overlay)
from lab import NODE, PATIENCE, PODS_MEMORY, LabError, is_ready

# MiB, the pause after each in milliseconds, and how many MiB the pod has before its leak begins, so
# that the kubelet has read them. "creeping" is slow enough for the kubelet, which reads every 10 s:
# 12 s from the threshold to the end of the memory.
LEAKERS = {"fast": (1600, 0, 0), "slow": (1600, 5, 0), "creeping": (1600, 50, 1100)}
# How long the kubelet alone may take to evict a pod that it restarts: it reads every 10 s.
SETTLE_SECONDS = 25
# Until the kubelet alone has written the condition of a kill to the node's status.
KUBELET_PATIENCE = 30
# Of the agent's log, if a kill was late.
LINES_SHOWN = 12
# MiB.
BYSTANDER = 100
# Of pods with the same usage, the working set, which is compared with the threshold, has no file
# pages that are inactive. The leakers have none.
#
# 2 MiB below: the kernel compares after each 128 pages of a CPU, the agent may be earlier.
CROSSING = PODS_MEMORY - (int(THRESHOLD.removesuffix("Mi")) << 20) - (2 << 20)


@dataclasses.dataclass
class Guard:
    """What acts, and how the cluster shows it."""
    name: str
    condition: str
    component: str  # the source of its Events


FORESTALL = Guard("forestall", CONDITION, "forestall")
KUBELET = Guard("kubelet alone", "MemoryPressure", "kubelet")


@dataclasses.dataclass
class Run:
    """What became of a leaker."""
    exit_ms: float | None = None  # from the crossing, if the kernel notified it in time
    restarts: int = 0
    ran_again: bool = False  # a restarted container ran; others could not start
    evicted: bool = False  # deleted, or Failed
    bystander_hurt: bool = False
    event: bool = False  # Evicted, of this pod
    condition_up: bool = False
    condition_down: bool = False  # after it was up
    kernel_kills: int = 0
    signal_us: int | None = None  # from the crossing to SIGKILL, at most


def outcomes() -> list[tuple[int, str]]:
    """Of each kill: us from the crossing to SIGKILL, at most, and the log to its line."""
    lines = fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c",
                                "agent").splitlines()
    delays = (re.search(r"crossed_to_signalled_at_most_us=(\d+)", each) for each in lines)
    return [(int(delay[1]), "\n".join(["", *lines[max(0, end - LINES_SHOWN):end]]))
            for end, delay in enumerate(delays, 1) if delay]


class Crossing:
    """Notified by the kernel when the pods' usage crosses the threshold: for both the same clock,
    which is this process's. Only cgroup v1 has this notification, as the lab has."""

    def __init__(self) -> None:
        folder = pathlib.Path("/sys/fs/cgroup/memory") / fixture.lab.cgroups.name / "kubepods"
        self.event = os.eventfd(0, os.EFD_NONBLOCK)
        with (folder / "memory.usage_in_bytes").open(encoding="ascii") as usage:
            (folder / "cgroup.event_control").write_text(
                f"{self.event} {usage.fileno()} {CROSSING}")

    def time_to_exit(self, pidfd: int) -> float | None:
        """Milliseconds from the crossing to the exit of the process; None: no notification."""
        crossed = None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ready = select.select([self.event, pidfd] if crossed is None else [pidfd], [], [], 1)[0]
            now = time.monotonic()
            if self.event in ready:
                crossed = now
            if pidfd in ready:
                return None if crossed is None else (now - crossed) * 1000
        raise LabError("the leaker is not killed")

    def close(self) -> None:
        os.close(self.event)


def transition(condition: str, status: str, version: str, patience: float) -> str:
    """The version of the node at which the condition had this status, at or after `version`; empty:
    not within `patience` seconds. The API server repeats what was before."""
    def has_it(node: dict) -> bool:
        return any((each["type"], each["status"]) == (condition, status)
                   for each in node["status"]["conditions"])
    try:
        node = fixture.lab.api.wait(NODES, lambda _, node: has_it(node), condition, patience,
                                    fieldSelector=f"metadata.name={NODE}", resourceVersion=version)
    except LabError:
        return ""
    return node["metadata"]["resourceVersion"]


class Leak:
    """A pod that waits, then fills its memory; deleted at the end."""

    def __init__(self, name: str, size: tuple[int, int, int], guard: Guard) -> None:
        self.name, self.guard, self.run = name, guard, Run()
        mebibytes, pause, first = size
        fixture.lab.api.call("POST", PODS, hog(name, mebibytes, pause, "wait", first))
        self.pod = fixture.lab.api.wait(PODS, lambda _, each: is_ready(each), f"{name} runs",
                                        fieldSelector=f"metadata.name={name}")
        fixture.wait_for_usage(name, first << 20)
        self.node = fixture.lab.api.get(f"{NODES}/{NODE}")["metadata"]["resourceVersion"]

    def begin(self) -> None:
        pidfd = os.pidfd_open(fixture.container_pids(self.pod)[0])
        kills = fixture.kernel_kills.read()
        with contextlib.closing(Crossing()) as crossing:
            try:
                fixture.begin(self.pod)
                self.run.exit_ms = crossing.time_to_exit(pidfd)
            finally:
                os.close(pidfd)
        self.settle()
        self.run.kernel_kills = fixture.kernel_kills.read() - kills
        self.read_what_the_cluster_shows()

    def settle(self) -> None:
        """Until the pod is deleted or Failed, or for so long as an eviction may take."""
        def is_over(event: str, pod: dict) -> bool:
            self.run.restarts = max(self.run.restarts, restarts(pod))
            self.run.ran_again = ran_again(pod)
            is_gone = event == "DELETED" or pod["status"].get("phase") == "Failed"
            # A kubelet of 1.20 may end a deletion in a round that it makes once a minute.
            self.run.evicted = is_gone or "deletionTimestamp" in pod["metadata"]
            return is_gone
        try:
            fixture.lab.api.wait(PODS, is_over, "the end of the pod", patience=SETTLE_SECONDS,
                                 fieldSelector=f"metadata.name={self.name}",
                                 resourceVersion=self.pod["metadata"]["resourceVersion"])
        except LabError:
            pass  # it lives on: this is a result

    def read_what_the_cluster_shows(self) -> None:
        events = fixture.lab.api.get(
            "/api/v1/namespaces/default/events?fieldSelector=reason%3DEvicted%2C"
            f"involvedObject.uid%3D{self.pod['metadata']['uid']}")["items"]
        self.run.event = any(each["source"]["component"] == self.guard.component
                             for each in events)
        # settle() has waited; the kubelet checks each 10 s, and then writes the node's status.
        up = transition(self.guard.condition, "True", self.node,
                        3 if self.guard is FORESTALL else KUBELET_PATIENCE)
        self.run.condition_up = bool(up)
        self.run.condition_down = bool(up) and bool(
            transition(self.guard.condition, "False", up, PATIENCE))

    def delete(self) -> None:
        path = f"{PODS}/{self.name}"
        try:
            version = fixture.lab.api.get(path)["metadata"]["resourceVersion"]
            fixture.lab.api.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1",
                                                  "gracePeriodSeconds": 0})
        except LabError:  # evicted
            return
        fixture.lab.api.wait(PODS, lambda event, _: event == "DELETED", f"{self.name} is gone",
                             fieldSelector=f"metadata.name={self.name}", resourceVersion=version)


class Bystander:
    """A pod that leaks nothing. `is_hurt()` makes it again if it is."""

    def __init__(self) -> None:
        self.name = ""
        self.number = 0
        self.start()

    def start(self) -> None:
        wait_for_no_pressure()
        self.number += 1
        self.name = f"bystander-{self.number}"
        fixture.lab.api.call("POST", PODS, hog(self.name, BYSTANDER, 0))
        pod = fixture.lab.api.wait(PODS, lambda _, each: is_ready(each), f"{self.name} runs",
                                   fieldSelector=f"metadata.name={self.name}")
        self.pids = fixture.container_pids(pod)

    def is_hurt(self) -> bool:
        try:
            pod = fixture.lab.api.get(f"{PODS}/{self.name}")
            if fixture.container_pids(pod) == self.pids and \
                    "deletionTimestamp" not in pod["metadata"]:
                return False
            self.delete()
        except (KeyError, LabError):  # deleted, or Failed
            pass
        self.start()
        return True

    def delete(self) -> None:
        fixture.lab.api.call("DELETE", f"{PODS}/{self.name}", {
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})


def leak(name: str, size: tuple[int, int, int], guard: Guard, bystander: Bystander) -> Run:
    known = len(outcomes()) if guard is FORESTALL else 0
    wait_for_no_pressure()
    made = Leak(name, size, guard)
    try:
        made.begin()
    finally:
        made.delete()
    made.run.bystander_hurt = bystander.is_hurt()
    if guard is FORESTALL and len(kills := outcomes()) > known:
        made.run.signal_us, log = max(kills[known:])
        if made.run.signal_us > SIGNAL_US_MAX:
            # With crossing_seen_by=reading its time is a bound; the kernel notified this one.
            report(f"late, and {made.run.exit_ms} ms from the crossing to the exit", log)
    return made.run


def span(values: list[float], digits: int) -> str:
    if not values:
        return "-"
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")


def row(by: str, name: str, runs: list[Run]) -> tuple[str, ...]:
    delays = [each.signal_us / 1000 for each in runs if each.signal_us is not None]
    exits = [each.exit_ms for each in runs if each.exit_ms is not None]
    counts = (sum(each.kernel_kills for each in runs), sum(each.evicted for each in runs),
              sum(each.bystander_hurt for each in runs), sum(each.event for each in runs))
    return (by, name, str(len(runs)), span(delays, 2), span(exits, 0),
            f"{sum(each.restarts for each in runs)} ({sum(each.ran_again for each in runs)} ran)",
            *map(str, counts), f"{sum(each.condition_up for each in runs)}, "
            f"{sum(each.condition_down for each in runs)}")


HEAD = ("by", "leaker", "runs", "crossing to SIGKILL, ms", "crossing to exit, ms", "restarts",
        "kernel OOM kills", "leakers evicted", "bystanders hurt", "Events Evicted",
        "condition up, down")


def print_row(*columns: str) -> None:
    """At once: a run takes minutes."""
    widths = [max(len(name), least) for name, least in
              zip(HEAD, (13, 6, 4, 23, 22, 10, 0, 0, 0, 0, 0))]
    print("  ".join(text.ljust(width) for text, width in zip(columns, widths)).rstrip(), flush=True)


def wait_for_no_pressure() -> None:
    """The kubelet starts no BestEffort pod before."""
    def is_calm(node: dict) -> bool:
        return any(each["type"] == "MemoryPressure" and each["status"] == "False"
                   for each in node["status"]["conditions"])
    fixture.lab.api.wait(NODES, lambda _, node: is_calm(node), "the node has no pressure")


def print_leaks(count: int, guard: Guard, kinds: list[str]) -> None:
    bystander = Bystander()
    prefix = guard.name.split()[0]
    for name in kinds:
        print_row(*row(guard.name, name, [
            leak(f"{prefix}-{name}-{index}", LEAKERS[name], guard, bystander)
            for index in range(count)]))
    bystander.delete()


def with_agent(count: int, kinds: list[str]) -> None:
    overlay = fixture.lab.folder / "overlay"
    write_overlay(overlay, agent_config())
    fixture.lab.import_image(fixture.image)
    fixture.lab.kubectl("apply", "-k", overlay)
    agent_pod()
    print_leaks(count, FORESTALL, kinds)
    log = fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "agent")
    repeated = re.findall(r"event=decision .*reason=pod-runs-again.* victim=(\S+)", log)
    report("containers that ran again and were killed again",
           f"{len(repeated)}, of {len(set(repeated))} pods")
    fixture.lab.kubectl("delete", "-k", overlay, "--wait=true")
    if fixture.lab.api.get(AGENTS)["items"]:
        raise LabError("the agent is not removed")


def with_kubelet(count: int, kinds: list[str]) -> None:
    """Its own threshold is that of the agent before."""
    fixture.lab.kubelet_threshold = THRESHOLD
    fixture.lab.services["kubelet"].stop()
    fixture.lab.start_kubelet()
    print_leaks(count, KUBELET, kinds)


def print_figures(count: int, by: str, kinds: list[str]) -> None:
    """`kinds`: of LEAKERS."""
    print_row(*HEAD)
    if by in ("both", "forestall"):
        with_agent(count, kinds)
    if by in ("both", "kubelet"):
        with_kubelet(count, kinds)
    load = pathlib.Path("/proc/loadavg").read_text().split()
    report("load of the machine, now and over 15 minutes", f"{load[0]}, {load[2]}")
