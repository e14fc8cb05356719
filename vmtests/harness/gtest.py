# SPDX-License-Identifier: Apache-2.0
"""Turns what a GoogleTest program prints into verdicts.

Pure: lines in, facts out. The text comes over a serial line from a machine
which may die at any moment, and children of a case write to the same line, so
nothing here assumes that a line is whole or that every case ends.
"""

from __future__ import annotations

import enum
import fnmatch
import re
from dataclasses import dataclass, field

NOT_APPLICABLE = "not applicable:"
KEPT_LINES = 2000

_RUN = re.compile(r"\[ RUN      \] (\S+)\s*$")
_END = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] ([^\s,]+)(?:, where .*)? \((\d+) ms\)\s*$")
_SUITE = re.compile(r"^\[----------\] \d+ tests? from ")
_SKIP = re.compile(r"(^|: )Skipped\s*$")
_METRIC = re.compile(r"^@metric (\S+) (\S+)(?: (\S+))?\s*$")


class Verdict(enum.Enum):
    """How a case ended, as printed."""

    PASS = "PASS"
    FAIL = "FAIL"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True)
class Metric:
    """A number a case measured."""

    name: str
    value: float
    unit: str


@dataclass
class Case:
    """One case with everything known about it once it has ended."""

    name: str
    verdict: Verdict = Verdict.FAIL
    seconds: float = 0.0
    reason: str = ""
    lines: list[str] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    console: str = ""
    # The earlier failure if it was repeated; None if it ran once.
    first_try: Case | None = None


def parse_list(text: str) -> list[str]:
    """Names in the order in which --gtest_list_tests prints, and gtest runs, them."""
    names = []
    suite = ""
    for line in text.splitlines():
        name = line.split("#", 1)[0].rstrip()
        if not name:
            continue
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names


def is_disabled(name: str) -> bool:
    """gtest skips such cases silently."""
    return any(part.startswith("DISABLED_") for part in re.split(r"[./]", name))


def select(names: list[str], globs: list[str]) -> list[str]:
    """The names which match one of the patterns; all of them without patterns."""
    if not globs:
        return names
    return [n for n in names if any(fnmatch.fnmatchcase(n, glob) for glob in globs)]


class Reader:
    """Follows the output of one run of the program."""

    def __init__(self) -> None:
        self.open: Case | None = None
        self.ended: list[Case] = []
        self.outside: list[str] = []  # of the current suite, between its cases

    def broadcast(self, line: str) -> Case | None:
        """Takes one line; returns the case that it ended, if any."""
        begun = _RUN.search(line)
        if begun:
            lost = self._close(Verdict.FAIL, 0.0, "its verdict was never printed")
            self.open = Case(begun[1])
            return lost
        ended = _END.search(line)
        if ended and self.open is not None and ended[2] == self.open.name:
            return self._end(ended[1], int(ended[3]) / 1000)
        self._keep(line)
        return None

    def abandon(self, reason: str, seconds: float) -> Case | None:
        """The program is gone: the case it was in, if any, has failed."""
        return self._close(Verdict.FAIL, seconds, reason)

    def _keep(self, line: str) -> None:
        if self.open is None:
            if _SUITE.match(line):
                self.outside = []
            self.outside.append(line)
            del self.outside[:-KEPT_LINES]
            return
        metric = _METRIC.match(line)
        if metric:
            self._measure(metric)
        self.open.lines.append(line)
        del self.open.lines[:-KEPT_LINES]

    def _measure(self, match: re.Match[str]) -> None:
        assert self.open is not None
        try:
            self.open.metrics.append(Metric(match[1], float(match[2]), match[3] or ""))
        except ValueError:
            # An unreadable number is an error of the case, and must be visible.
            self.open.reason = f"malformed metric: {match[0].strip()}"

    def _end(self, word: str, seconds: float) -> Case | None:
        assert self.open is not None
        if self.open.reason:
            return self._close(Verdict.FAIL, seconds, self.open.reason)
        if word == "OK":
            return self._close(Verdict.PASS, seconds, "")
        if word == "FAILED":
            return self._close(Verdict.FAIL, seconds, "")
        reason = skip_reason(self.open.lines) or skip_reason(self.outside)
        if reason.startswith(NOT_APPLICABLE):
            stated = reason[len(NOT_APPLICABLE) :].strip()
            return self._close(Verdict.NOT_APPLICABLE, seconds, stated)
        return self._close(Verdict.FAIL, seconds, f"skipped: {reason or 'no reason given'}")

    def _close(self, verdict: Verdict, seconds: float, reason: str) -> Case | None:
        case, self.open = self.open, None
        if case is not None:
            case.verdict, case.seconds, case.reason = verdict, seconds, reason
            self.ended.append(case)
        return case


def skip_reason(lines: list[str]) -> str:
    """What follows gtest's `file:line: Skipped`, on one line."""
    for index, line in enumerate(lines):
        if _SKIP.search(line):
            rest = [text.strip() for text in lines[index + 1 :]]
            message = rest[: rest.index("")] if "" in rest else rest
            return " ".join(message)
    return ""
