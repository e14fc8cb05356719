# SPDX-License-Identifier: Apache-2.0
"""The results of a run for people and for programs.

Lines go out while cases run, since a run takes minutes and the first failure
is worth reading at once; the summary repeats what has to be acted upon.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, TextIO

from .campaign import Environment
from .gtest import Case, Verdict

OUTPUT_LINES = 40
CONSOLE_LINES = 60


class Printer:
    """Whole lines from several environments at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def line(self, text: str = "") -> None:
        with self._lock:
            print(text, file=self._stream, flush=True)

    def case(self, environment: Environment, case: Case) -> None:
        reason = f"  ({case.reason})" if case.reason else ""
        verdict = case.verdict.value
        self.line(f"{environment.name:<9}  {verdict:<4}  {case.name}  {case.seconds:.1f} s{reason}")


class Summary:
    """The outcome of a whole run."""

    def __init__(self, environments: list[Environment], required: set[str]) -> None:
        self._environments = environments
        self._required = required

    @property
    def exit_status(self) -> int:
        """0 all passed, 1 something failed, 2 something could not be tried."""
        lost = [e for e in self._environments if e.unavailable and e.label in self._required]
        if lost or any(e.fault for e in self._environments):
            return 2
        return 0 if self._count(Verdict.FAIL) == 0 and self._count(Verdict.PASS) > 0 else 1

    def lines(self) -> Iterator[str]:
        for environment in self._environments:
            for case in environment.cases:
                if case.first_try is not None:
                    yield from _failure(environment, case.first_try)
                    yield f"  tried again: {case.verdict.value}"
                if case.verdict is Verdict.FAIL:
                    yield from _failure(environment, case)
        yield ""
        yield f"{'environment':<12} {'kernel':<32} {'passed':>6} {'failed':>6} {'n/a':>4}  time"
        for environment in self._environments:
            yield from _row(environment)
        yield ""
        if self._count(Verdict.PASS) + self._count(Verdict.FAIL) == 0:
            yield "no case was executed, which proves nothing and counts as a failure"
        yield self.last_line()

    def last_line(self) -> str:
        used = sum(1 for e in self._environments if e.cases)
        passed, failed, not_applicable = (
            self._count(verdict) for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE)
        )
        plural = "" if used == 1 else "s"
        return (
            f"vmtests: {passed} passed, {failed} failed, {not_applicable} n/a "
            f"on {used} environment{plural}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "environments": [_environment_json(e) for e in self._environments],
            "passed": self._count(Verdict.PASS),
            "failed": self._count(Verdict.FAIL),
            "not_applicable": self._count(Verdict.NOT_APPLICABLE),
            "exit_status": self.exit_status,
        }

    def _count(self, verdict: Verdict) -> int:
        return sum(environment.count(verdict) for environment in self._environments)


def _row(environment: Environment) -> Iterator[str]:
    if environment.unavailable:
        yield f"{environment.name:<12} could not be fetched: {environment.unavailable}"
        return
    passed, failed, not_applicable = (
        environment.count(verdict)
        for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE)
    )
    boots = f", {environment.boots} boots" if environment.boots > 1 else ""
    yield (
        f"{environment.name:<12} {environment.release or '-':<32} {passed:>6} {failed:>6} "
        f"{not_applicable:>4}  {environment.seconds:.1f} s, CPU {environment.cpu_seconds:.1f} s"
        f"{boots}"
    )
    if environment.fault:
        yield f"    could not run: {environment.fault}"
    for note in environment.notes:
        yield f"    {note}"
    if environment.fault or environment.count(Verdict.FAIL):
        yield f"    logs: {environment.logs}"


def _failure(environment: Environment, case: Case) -> Iterator[str]:
    if case.lines or case.console:
        yield ""
    yield f"FAIL {environment.name} {case.name}{': ' + case.reason if case.reason else ''}"
    yield from _excerpt("output", [line for line in case.lines if line.strip()], OUTPUT_LINES)
    yield from _excerpt("console", case.console.splitlines(), CONSOLE_LINES)


def _excerpt(title: str, lines: list[str], most: int) -> Iterator[str]:
    if not lines:
        return
    shown = lines[-most:]
    left_out = f" (last {most} of {len(lines)} lines)" if len(lines) > most else ""
    yield f"  {title}{left_out}:"
    for line in shown:
        yield f"    {line}"


def _environment_json(environment: Environment) -> dict[str, Any]:
    return {
        "kernel": environment.label,
        "cgroup": environment.cgroup,
        "release": environment.release,
        "package_version": environment.kernel.version if environment.kernel else None,
        "seconds": round(environment.seconds, 2),
        "boots": environment.boots,
        "unavailable": environment.unavailable or None,
        "fault": environment.fault or None,
        "notes": environment.notes,
        "logs": str(environment.logs) if environment.logs else None,
        "cases": [_case_json(case) for case in environment.cases],
    }


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "verdict": case.verdict.value,
        "seconds": case.seconds,
        "reason": case.reason or None,
        "metrics": [
            {"name": metric.name, "value": metric.value, "unit": metric.unit}
            for metric in case.metrics
        ],
        "output": case.lines if case.verdict is Verdict.FAIL or case.first_try else [],
        "first_try": _case_json(case.first_try) if case.first_try else None,
    }
