# SPDX-License-Identifier: Apache-2.0
"""run.py --runs N: leakers, some with the agent and some with the kubelet alone, each counted."""

from __future__ import annotations

import dataclasses
import os
import re
import select
import statistics
import time

import fixture
from fixture import (AGENTS, NODES, PODS, SIGNAL_US_MAX, THRESHOLD, agent_config, agent_pod, hog,
                     ran_again, report, restarts, write_overlay)
from lab import PATIENCE, LabError, is_ready

# MiB, and the pause after each in milliseconds.
LEAKERS = {"fast": (1600, 0), "slow": (1600, 5)}
# How long the kubelet alone may take to evict a pod that it restarts.
SETTLE_SECONDS = 40


@dataclasses.dataclass
class Run:
    """What became of a leaker."""
    exit_seconds: float = 0  # from the begin of the leak
    restarts: int = 0
    ran_again: bool = False  # a restarted container ran; others could not start
    evicted: bool = False  # deleted, or Failed
    kernel_kills: int = 0
    signal_us: int | None = None  # from the crossing to SIGKILL, at most


def outcomes() -> list[tuple[int, str]]:
    """Of each kill: us from the crossing to SIGKILL, at most, and the line of the log."""
    log = fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "agent")
    return [(int(each[1]), each[0]) for each in re.finditer(
        r".*crossed_to_signalled_at_most_us=(\d+).*", log)]


class Leak:
    """A pod that waits, then fills its memory; deleted at the end."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        self.name, self.run = name, Run()
        fixture.lab.api.call("POST", PODS, hog(name, *size, "wait"))
        self.pod = fixture.lab.api.wait(PODS, lambda _, each: is_ready(each), f"{name} runs",
                                        fieldSelector=f"metadata.name={name}")

    def begin(self) -> None:
        pid = fixture.container_pids(self.pod)[0]
        pidfd = os.pidfd_open(pid)
        kills = fixture.kernel_kills.read()
        try:
            begun = time.monotonic()
            fixture.begin(self.pod)
            if not select.select([pidfd], [], [], PATIENCE)[0]:
                raise LabError(f"{self.name} is not killed")
            self.run.exit_seconds = time.monotonic() - begun
        finally:
            os.close(pidfd)
        self.settle()
        self.run.kernel_kills = fixture.kernel_kills.read() - kills

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


def leak(name: str, size: tuple[int, int], with_agent: bool) -> Run:
    known = len(outcomes()) if with_agent else 0
    wait_for_no_pressure()
    made = Leak(name, size)
    try:
        made.begin()
    finally:
        made.delete()
    if with_agent and len(kills := outcomes()) > known:
        made.run.signal_us, line = max(kills[known:])
        if made.run.signal_us > SIGNAL_US_MAX:
            report("late", line)
    return made.run


def span(values: list[float], digits: int) -> str:
    if not values:
        return "-"
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")


def row(by: str, name: str, runs: list[Run]) -> tuple[str, ...]:
    delays = [each.signal_us / 1000 for each in runs if each.signal_us is not None]
    return (by, name, str(len(runs)), span(delays, 2),
            span([each.exit_seconds for each in runs], 2),
            f"{sum(each.restarts for each in runs)} ({sum(each.ran_again for each in runs)} ran)",
            str(sum(each.kernel_kills for each in runs)),
            str(sum(each.evicted for each in runs)))


def print_row(*columns: str) -> None:
    """At once: a run takes minutes."""
    widths = (14, 7, 5, 24, 24, 11, 17, 13)
    print("  ".join(text.ljust(width) for text, width in zip(columns, widths)).rstrip(), flush=True)


def wait_for_no_pressure() -> None:
    """The kubelet starts no BestEffort pod before."""
    def is_calm(node: dict) -> bool:
        return any(each["type"] == "MemoryPressure" and each["status"] == "False"
                   for each in node["status"]["conditions"])
    fixture.lab.api.wait(NODES, lambda _, node: is_calm(node), "the node has no pressure")


def with_agent(count: int) -> None:
    overlay = fixture.lab.folder / "overlay"
    write_overlay(overlay, agent_config())
    fixture.lab.import_image(fixture.image)
    fixture.lab.kubectl("apply", "-k", overlay)
    agent_pod()
    for name, size in LEAKERS.items():
        print_row(*row("forestall", name, [leak(f"{name}-{index}", size, True)
                                           for index in range(count)]))
    fixture.lab.kubectl("delete", "-k", overlay, "--wait=true")
    if fixture.lab.api.get(AGENTS)["items"]:
        raise LabError("the agent is not removed")


def with_kubelet(count: int) -> None:
    """Its own threshold is that of the agent before."""
    fixture.lab.kubelet_threshold = THRESHOLD
    fixture.lab.services["kubelet"].stop()
    fixture.lab.start_kubelet()
    for name, size in LEAKERS.items():
        print_row(*row("kubelet alone", name, [leak(f"{name}-{index}", size, False)
                                               for index in range(count)]))


def print_figures(count: int) -> None:
    print_row("by", "leaker", "runs", "crossing to SIGKILL, ms", "leak to exit, s", "restarts",
              "kernel OOM kills", "pods evicted")
    with_agent(count)
    with_kubelet(count)
