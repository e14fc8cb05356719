# SPDX-License-Identifier: Apache-2.0
"""The data that a guest sent about one run, as values.

The log is text in sections (`== name`), kept as received; times in it are microseconds of the
guest's monotonic clock, in the trace as in the samples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SIGTERM, SIGKILL = 15, 9
_SENT_BY_KERNEL = 128  # si_code of a signal that no process sent

_TRACE = re.compile(
    r"^\s*(?P<task>.+)-(?P<pid>\d+)\s+\[\d+\]\s+\S+\s+(?P<time>\d+\.\d+): "
    r"(?P<event>\w+): (?P<rest>.*)$"
)
_SIGNAL = re.compile(r"sig=(\d+) errno=-?\d+ code=(-?\d+) comm=(.*) pid=(\d+) ")
_OOM = re.compile(r"oom-kill:constraint=")
_TOLD = re.compile(r"\bevent=outcome\b.*\bcrossed_to_signalled(?:_at_most)?_us=([\d.]+)")


class LogError(Exception):
    """A log that lacks what every complete run has."""


@dataclass(frozen=True)
class Sample:
    at_us: int
    free: int  # KiB, as the next three
    available: int
    swap_free: int
    kubelet_available: int
    oom_kills: int
    full_us: int
    # KiB; None: no pod has a limit, or the log is of an older version
    limit_left: int | None = None

    @property
    def until_oom(self) -> int:
        return self.available + self.swap_free

    @staticmethod
    def of(line: str) -> Sample:
        *first, last = map(int, line.split())
        if len(first) == 6:
            return Sample(*first, last)
        return Sample(*first, None if last < 0 else last)


@dataclass(frozen=True)
class Signal:
    at_us: int
    number: int
    sender: str
    victim: str  # comm, which is the pod's name
    pid: int
    from_kernel: bool


@dataclass(frozen=True)
class Delay:
    """How late the probe was, and when it noticed."""

    at_us: int
    late_us: int


@dataclass
class RunLog:
    facts: dict[str, str] = field(default_factory=dict)
    alive: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)  # pids the kernel's OOM killer chose
    exits: dict[int, int] = field(default_factory=dict)  # pid: when
    oom_events: int = 0
    reported_us: float | None = None  # crossing to signal, as the agent reports its first kill

    def number(self, name: str) -> float | None:
        text = self.facts.get(name)
        return float(text) if text else None


def sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"": []}
    current = found[""]
    for line in text.splitlines():
        if line.startswith("== "):
            current = found.setdefault(line[3:], [])
        else:
            current.append(line)
    return found


def parse(text: str) -> RunLog:
    parts = sections(text)
    for line in parts[""]:
        if line.startswith("failure "):
            raise LogError(line.removeprefix("failure "))
    for name in ("facts", "samples", "trace", "end"):
        if name not in parts:
            raise LogError(f"the log has no section {name}")
    log = RunLog()
    for line in parts["facts"]:
        name, _, value = line.partition(" ")
        if name == "alive":
            log.alive.append(value)
        else:
            log.facts[name] = value
    log.samples = [Sample.of(line) for line in parts["samples"]]
    log.delays = [Delay(*map(int, line.split())) for line in parts.get("delays", [])]
    for line in parts["trace"]:
        _take_trace(log, line)
    log.oom_events = sum(1 for line in parts.get("kernel", []) if _OOM.search(line))
    reported = (_TOLD.search(line) for line in parts.get("agent", []))
    log.reported_us = next((float(found[1]) for found in reported if found), None)
    if "go" not in log.facts or not log.samples:
        raise LogError("the sampler did not finish")
    return log


def _take_trace(log: RunLog, line: str) -> None:
    match = _TRACE.match(line)
    if match is None:
        return
    at_us = round(float(match["time"]) * 1_000_000)
    if match["event"] == "signal_generate":
        found = _SIGNAL.match(match["rest"])
        if found:
            log.signals.append(
                Signal(
                    at_us, int(found[1]), match["task"].strip(), found[3], int(found[4]),
                    int(found[2]) == _SENT_BY_KERNEL,
                )  # fmt: skip
            )
    elif match["event"] == "mark_victim":
        log.marked.update(int(pid) for pid in re.findall(r"\bpid=(\d+)", match["rest"]))
    elif match["event"] == "sched_process_exit":
        log.exits.update((int(pid), at_us) for pid in re.findall(r"\bpid=(\d+)", match["rest"]))
