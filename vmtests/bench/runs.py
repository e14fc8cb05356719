# SPDX-License-Identifier: Apache-2.0
"""One run after the other, each from the same saved machine.

The machine is booted once, with steady pods and without an agent, and saved. Every run resumes
it, so no run affects another. The seed shifts "go", so that repetitions hit an agent's periods at
different phases."""

from __future__ import annotations

import gzip
import hashlib
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import emulator
from harness.guest import Fleet

from . import figures, runlog
from .catalogue import Agent, Pod, Scenario
from .figures import Figures
from .qemu import Hardware, Machine, MachineError

BOOT_SECONDS = 900.0
RUN_SECONDS = 1200.0
LEAD_MS = 1000  # samples before go
SETTLE_MS = 2500  # after the last guilty pod is gone
ATTEMPTS = 3  # at a run whose machine QEMU broke
KEPT_STATES = 2  # each is most of a machine's memory


@dataclass(frozen=True)
class Job:
    agent: Agent
    scenario: Scenario
    repetition: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.scenario.name}.{self.agent.name}.{self.repetition}"

    @property
    def lead_ms(self) -> int:
        # From the seed, the scenario and the repetition, not from the agent: compared agents have
        # the same phase relative to their start.
        drawn = random.Random(f"{self.seed}/{self.scenario.name}/{self.repetition}").random()
        return LEAD_MS + round(drawn * self.agent.phase_ms)

    def command(self) -> str:
        guilty = " ".join(sorted(self.scenario.guilty))
        return (
            f"run {self.agent.name} {self.scenario.name} {self.lead_ms} "
            f"{self.scenario.seconds * 1000} {SETTLE_MS} {self.scenario.zram} "
            f"{self.scenario.limited} {guilty}"
        )


@dataclass
class Result:
    """The result of a job. A failed run stays in every count."""

    agent: str
    scenario: str
    repetition: int
    seed: int
    lead_ms: int
    log: str  # file name in the output folder
    invocation: int = 0  # the invocation that added it to this folder
    failure: str = ""
    figures: Figures | None = None
    host_seconds: float = 0.0
    broken_machines: int = 0  # attempts before that in which QEMU broke, whose logs are gone


class Bench:
    """The saved machine and its runs."""

    def __init__(
        self, fleet: Fleet, hardware: Hardware, key: str, cache: Path, scratch: Path,
        steady: tuple[Pod, ...], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._fleet = fleet
        self._hardware = hardware
        self._scratch = scratch
        self._steady = steady
        self._say = say
        self._state = cache / f"machine-{state_key(hardware, key)}.state"

    def prepare(self) -> None:
        """Boots and saves the machine, unless it is saved already."""
        if self._state.exists():
            self._state.touch()
            return
        self._say("booting the machine that every run resumes")
        begun = time.monotonic()
        machine = Machine(self._fleet, self._hardware, self._scratch / "boot")
        try:
            for line in machine.lines(BOOT_SECONDS):
                if line == "READY":
                    break
                if line.startswith("failure "):
                    raise MachineError(line.removeprefix("failure "))
            machine.save(self._state)
        finally:
            machine.end()
        size = self._state.stat().st_size >> 20
        self._say(f"saved: {size} MiB after {time.monotonic() - begun:.0f} s of this host's time")
        prune(self._state)

    def run(self, job: Job, output: Path, resume: bool = True) -> Result:
        """One run; any error is in the result."""
        begun = time.monotonic()
        log_file = output / "logs" / f"{job.name}.log.gz"
        result = Result(
            job.agent.name, job.scenario.name, job.repetition, job.seed, job.lead_ms,
            str(log_file.relative_to(output)),
        )  # fmt: skip
        for attempt in range(ATTEMPTS):
            result.broken_machines = attempt
            text, console = self._attempt(job, resume)
            if not emulator.broke_it(console):
                break
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(log_file, "wt", encoding="utf-8") as file:
            file.write(f"job {job.command()} seed={job.seed}\n{text}== console\n{console}")
        measure(result, output, job.agent, job.scenario, {pod.name for pod in self._steady})
        result.host_seconds = time.monotonic() - begun
        return result

    def _attempt(self, job: Job, resume: bool) -> tuple[str, str]:
        """The data that a guest sent, and the output of its console."""
        folder = self._scratch / job.name
        text = self._text_of(job, folder, resume)
        file = folder / "console.log"
        console = file.read_text(errors="replace").replace("\r", "") if file.exists() else ""
        shutil.rmtree(folder, ignore_errors=True)
        return text, console

    def _text_of(self, job: Job, folder: Path, resume: bool) -> str:
        machine = Machine(
            self._fleet, self._hardware, folder, self._state if resume else None
        )
        lines = []
        try:
            received = machine.lines(RUN_SECONDS)
            if not resume:
                for line in received:
                    if line == "READY":
                        break
            machine.send(job.command())
            for line in received:
                lines.append(line)
                if line == "== end":
                    break
        except MachineError as error:
            lines.append(f"failure {error}")
        finally:
            machine.end()
        return "\n".join(lines) + "\n"


def measure(
    result: Result, output: Path, agent: Agent, scenario: Scenario, steady: set[str]
) -> None:
    """Adds the figures from the log, or the reason for their absence."""
    result.figures, result.failure = None, ""
    try:
        with gzip.open(output / result.log, "rt", encoding="utf-8") as file:
            log = runlog.parse(file.read())
        pods = steady | {pod.name for pod in scenario.pods}
        result.figures = figures.compute(log, pods, scenario.guilty, agent.lines)
    except (OSError, runlog.LogError, KeyError, ValueError) as error:
        result.failure = f"{type(error).__name__}: {error}"


def state_key(hardware: Hardware, payload: str) -> str:
    """Everything a saved machine depends on, as one word."""
    key = hashlib.sha256(payload.encode())
    key.update(hardware.initramfs.read_bytes())
    for path in (hardware.kernel, *hardware.disks):
        # The bench's own disks are new each time: the early one's contents are in `payload`, and
        # the late one is not in use yet.
        if path.name not in ("early.img", "late.img"):
            key.update(f"{path}{path.stat().st_size}{path.stat().st_mtime_ns}".encode())
    # Paths are new each time, and how fast a disk is may change.
    key.update("\0".join(word for word in hardware.arguments() if "/" not in word).encode())
    return key.hexdigest()[:16]


def prune(current: Path) -> None:
    """Removes old machines except the last but one, which another bench may be resuming."""
    states = sorted(
        current.parent.glob("machine-*.state"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for path in states[KEPT_STATES:]:
        path.unlink(missing_ok=True)
