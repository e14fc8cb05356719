# SPDX-License-Identifier: Apache-2.0
"""Runs all selected cases of one environment, over as many boots as needed.

One boot is usually enough. A case that crashes the machine, or hangs, costs itself and one more
boot; the cases after it still run. Every boot settles at least one case, so the campaign always
ends.

Thread rule: run_cases() may run in several threads with different cases."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import emulator, guest, gtest, image
from .gtest import Case, Verdict
from .guest import Ending, Outcome
from .kernels import Kernel

# Time for a loaded machine to boot and for the program to load.
BOOT_SECONDS = 120.0
CONSOLE_TAIL = 16384
EMULATOR_FAULTS_MAX = 3
# More failures than these in one environment are not random.
REPEATED_MAX = 3
_COMPLAINT = re.compile(r"\] (?:WARNING: |BUG: |INFO: task .* blocked|Kernel panic)")


@dataclass(frozen=True)
class Limits:
    """Bounds of time, memory and CPUs of every guest."""

    case_seconds: float
    guest_seconds: float
    memory_mib: int
    cpus: int


@dataclass
class Environment:
    """One cell of the matrix and its results."""

    label: str  # 6.1, 6.12, newest
    cgroup: str  # v1, v2, systemd
    kernel: Kernel | None = None
    release: str = ""
    cases: list[Case] = field(default_factory=list)
    boots: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the emulator
    logs: Path | None = None
    unavailable: str = ""  # why its kernel could not be fetched
    fault: str = ""  # why the guest could not run any case
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.label} {self.cgroup}"

    def count(self, verdict: Verdict) -> int:
        return sum(case.verdict is verdict for case in self.cases)


class Boot:
    """Connects the output of one guest to verdicts, and times the case it is in."""

    def __init__(self, machine: guest.Machine, limits: Limits, on_case: Callable[[Case], None]):
        self.reader = gtest.Reader()
        self.allowed = BOOT_SECONDS
        self._machine = machine
        self._limits = limits
        self._on_case = on_case
        self._console_from = 0
        self._begun = 0.0
        self._until = time.monotonic() + self.allowed

    def line(self, text: str) -> None:
        before = self.reader.open
        self._report(self.reader.broadcast(text))
        if self.reader.open is not before:
            self.allowed = self._limits.case_seconds
            self._until = time.monotonic() + self.allowed
            if self.reader.open is not None:
                self._begun = time.monotonic()
                self._console_from = _size(self._machine.console)

    def deadline(self) -> float:
        return self._until

    def abandon(self, reason: str) -> None:
        self._report(self.reader.abandon(reason, time.monotonic() - self._begun))

    def blame_unseen(self, name: str, reason: str) -> None:
        """Fails a case of which not even the first line arrived."""
        self.reader.open = Case(name)
        self._begun = time.monotonic()
        self.abandon(reason)

    def _report(self, case: Case | None) -> None:
        if case is None:
            return
        if case.verdict is Verdict.FAIL:
            case.console = console_tail(self._machine.console, self._console_from)
        self._on_case(case)


class Campaign:
    """The cases of one environment on their way to verdicts."""

    def __init__(
        self,
        environment: Environment,
        fleet: guest.Fleet,
        limits: Limits,
        payload: tuple[Path, ...],
        scratch: Path,
        variables: dict[str, str],
        on_case: Callable[[Environment, Case], None],
    ) -> None:
        self.environment = environment
        self._fleet = fleet
        self._limits = limits
        self._payload = payload
        self._scratch = scratch
        self._variables = variables
        self._on_case = on_case
        self._emulator_faults = 0
        # Of the environment, which the boots of several threads change.
        self._lock = threading.Lock()

    def run_cases(self, names: list[str]) -> None:
        """Runs until every case has a verdict, possibly that it could not run."""
        for name in filter(gtest.is_disabled, names):
            self._settle(Case(name, reason="disabled in the source"))
        remaining = [name for name in names if not gtest.is_disabled(name)]
        while remaining and not self._fleet.stopping:
            outcome, boot, machine = self._boot_with(remaining)
            if outcome.ending is Ending.STOPPED:
                return
            if not self._was_the_emulator(outcome, machine):
                self._close_boot(outcome, boot, remaining)
            settled = {case.name for case in self.environment.cases}
            remaining = [name for name in remaining if name not in settled]

    def repeat_failed(self, names: list[str]) -> None:
        """Repeats a few failed cases once, each in a boot of its own, to separate real failures
        from stalls of an emulator on a busy machine."""
        failed = [case for case in self.environment.cases if case.verdict is Verdict.FAIL]
        tried = [case for case in failed if case.name in names and not gtest.is_disabled(case.name)]
        if self.environment.fault or len(failed) > len(tried) or len(tried) > REPEATED_MAX:
            return
        for case in tried:
            if self._fleet.stopping:
                return
            self.environment.cases.remove(case)
            self.run_cases([case.name])
            for again in self.environment.cases:
                if again.name == case.name:
                    again.first_try = case

    def run_command(self, command: str, on_line: Callable[[str], None]) -> Outcome:
        """Runs a shell command in the guest instead of the cases."""
        until = time.monotonic() + self._limits.guest_seconds
        plan = self._plan("command", command=command)
        machine = self._machine(plan)
        outcome = guest.run(self._fleet, machine, on_line, lambda: until)
        self._note_outcome(outcome, machine)
        return outcome

    def run_shell(self) -> int:
        return guest.interact(self._fleet, self._machine(self._plan("shell")))

    def _boot_with(self, remaining: list[str]) -> tuple[Outcome, Boot, guest.Machine]:
        machine = self._machine(self._plan("cases", filter_=":".join(remaining)))
        boot = Boot(machine, self._limits, self._settle)
        outcome = guest.run(self._fleet, machine, boot.line, boot.deadline)
        self._note_outcome(outcome, machine)
        return outcome, boot, machine

    def _settle(self, case: Case) -> None:
        with self._lock:
            self.environment.cases.append(case)
        self._on_case(self.environment, case)

    def _plan(self, mode: str, filter_: str = "", command: str = "") -> image.Plan:
        return image.Plan(
            token=guest.new_token(),
            kernel=self.environment.label,
            cgroup=self.environment.cgroup,
            mode=mode,
            filter=filter_,
            command=command,
            environment=self._variables,
        )

    def _machine(self, plan: image.Plan) -> guest.Machine:
        environment = self.environment
        assert environment.kernel is not None and environment.logs is not None
        with self._lock:
            environment.boots += 1
            boot = f"boot{environment.boots}"
        folder = environment.logs / boot
        folder.mkdir(parents=True)
        initramfs = self._scratch / f"{environment.label}-{environment.cgroup}-{boot}.cpio"
        image.assemble([image.base(environment.kernel), *self._payload], plan, initramfs)
        return guest.Machine(
            kernel=environment.kernel.boot_file,
            initramfs=initramfs,
            folder=folder,
            memory_mib=self._limits.memory_mib,
            cpus=self._limits.cpus,
            token=plan.token,
            bound_seconds=self._limits.guest_seconds,
        )

    def _note_outcome(self, outcome: Outcome, machine: guest.Machine) -> None:
        machine.initramfs.unlink(missing_ok=True)
        lines = [line.strip() for line in console_of(machine).splitlines()]
        complaints = [line for line in lines if _COMPLAINT.search(line)]
        with self._lock:
            self.environment.seconds += outcome.seconds
            self.environment.cpu_seconds += outcome.cpu_seconds
            self.environment.release = outcome.release or self.environment.release
            self.environment.notes += [f"{machine.folder.name}: {line}" for line in complaints[:5]]

    def _was_the_emulator(self, outcome: Outcome, machine: guest.Machine) -> bool:
        """Whether cases without a verdict run again in another boot; limited."""
        if outcome.ending is not Ending.DIED or not emulator.broke_it(console_of(machine)):
            return False
        with self._lock:
            self._emulator_faults += 1
            return self._emulator_faults <= EMULATOR_FAULTS_MAX

    def _close_boot(self, outcome: Outcome, boot: Boot, remaining: list[str]) -> None:
        """Assigns a verdict to what the boot left unsettled."""
        if not outcome.release:
            self.environment.fault = boot_fault(outcome)
            self._give_up(remaining, self.environment.fault)
            return
        reason = fault_of(outcome, boot, self._limits)
        if boot.reader.open is not None:
            boot.abandon(reason)
            return
        ended = {case.name for case in boot.reader.ended}
        missing = [name for name in remaining if name not in ended]
        if missing and not ended:
            self._give_up(remaining, f"{reason} before any case: {last_words(boot)}")
        elif missing:
            # The first line of a case is lost when it takes the machine down
            # at once, and gtest keeps the order: so it was the next one.
            boot.blame_unseen(missing[0], f"{reason} before the case had printed anything")
        elif not ended_as_expected(outcome, boot.reader.ended):
            boot.blame_unseen("(after the last case)", reason)

    def _give_up(self, names: list[str], reason: str) -> None:
        for name in names:
            self._settle(Case(name, reason=f"never ran: {reason}"))


def ended_as_expected(outcome: Outcome, cases: list[Case]) -> bool:
    """gtest exits with 1 after a failure; any other code is an error at the exit."""
    failed = any(case.verdict is Verdict.FAIL for case in cases)
    expected = (0, 1) if failed else (0,)
    return outcome.ending is Ending.FINISHED and outcome.status in expected


def boot_fault(outcome: Outcome) -> str:
    """Why a guest did not reach the plan."""
    if outcome.ending is Ending.UNFIT:
        return outcome.detail
    words = f": {outcome.detail}" if outcome.detail else ""
    return f"the guest did not boot ({outcome.ending.value}){words}"


def fault_of(outcome: Outcome, boot: Boot, limits: Limits) -> str:
    """How the program or its machine ended."""
    if outcome.ending is Ending.FINISHED:
        signal_number = outcome.status - 128
        how = f"signal {signal_number}" if signal_number > 0 else f"status {outcome.status}"
        return f"vm_cases ended with {how}"
    if outcome.ending is Ending.SILENT:
        if outcome.seconds >= limits.guest_seconds:
            return f"the guest reached its bound of {limits.guest_seconds:.0f} s"
        return f"nothing was settled for {boot.allowed:.0f} s"
    return "the guest died"


def last_words(boot: Boot) -> str:
    lines = [line for line in boot.reader.outside if line.strip()]
    return lines[-1].strip() if lines else "it printed nothing"


def console_of(machine: guest.Machine) -> str:
    return machine.console.read_text(errors="replace") if machine.console.exists() else ""


def console_tail(path: Path, begin: int) -> str:
    """The kernel's output since an offset, or its last part."""
    try:
        with path.open("rb") as file:
            file.seek(max(begin, _size(path) - CONSOLE_TAIL))
            return file.read().decode(errors="replace").replace("\r", "")
    except OSError:
        return ""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
