# SPDX-License-Identifier: Apache-2.0
"""Which case runs in which guest, and in which boot.

Every case runs in every guest, except those that vmtests/placement.txt lists with what their result
depends on."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable
from pathlib import Path

from . import systemd
from .campaign import Environment

# The guest of cases that need one guest only: a stable kernel with the cgroup version that the host
# of the tests may lack.
PREFERRED = ("6.12", "v2")


class BadList(Exception):
    """placement.txt has an error; the text has the line."""


def _none(_environments: list[Environment]) -> list[Environment]:
    return []


def _once(environments: list[Environment]) -> list[Environment]:
    named = [each for each in environments if (each.label, each.cgroup) == PREFERRED]
    return (named or environments)[:1]


def _per_cgroup_version(environments: list[Environment]) -> list[Environment]:
    """The last guest with v2 has the newest kernel, and the one with v1 the oldest: so both ends of
    the supported kernels are covered."""
    return list({each.cgroup: each for each in environments}.values())


@functools.cache
def host_cgroup_version() -> str:
    """Where this host has the memory controller. proc(5): a line is "ID:controllers:path", without
    controllers for v2."""
    lists = (line.split(":")[1] for line in Path("/proc/self/cgroup").read_text().splitlines())
    return "v1" if any("memory" in controllers.split(",") for controllers in lists) else "v2"


def _other_cgroup_version(environments: list[Environment]) -> list[Environment]:
    """ctest runs the cases on this host, which has the other one."""
    chosen = _per_cgroup_version(environments)
    return [each for each in chosen if each.cgroup != host_cgroup_version()] or chosen


def _per_kernel(environments: list[Environment]) -> list[Environment]:
    return list({each.label: each for each in environments}.values())


def _systemd(environments: list[Environment]) -> list[Environment]:
    return [each for each in environments if each.cgroup == systemd.CGROUP]


# Name of a section to what chooses its guests.
SECTIONS: dict[str, Callable[[list[Environment]], list[Environment]]] = {
    "host": _none,
    "once": _once,
    "other cgroup version": _other_cgroup_version,
    "per cgroup version": _per_cgroup_version,
    "per kernel": _per_kernel,
    "systemd": _systemd,
}


def parse(text: str) -> dict[str, str]:
    """Pattern to section, without comments and empty lines."""
    sections: dict[str, str] = {}
    current = ""
    for line in text.splitlines():
        word = line.split("#", 1)[0].strip()
        if word.startswith("["):
            current = word.strip("[]")
            if current not in SECTIONS:
                raise BadList(f"{word}: sections are {', '.join(SECTIONS)}")
        elif word and not current:
            raise BadList(f"{word}: no section before it")
        elif word:
            sections[word] = current
    return sections


def unmatched(patterns: dict[str, str], names: list[str]) -> list[str]:
    """Patterns that match no case: the case was renamed or removed."""
    return [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def place(
    environments: list[Environment], names: list[str], patterns: dict[str, str]
) -> list[tuple[Environment, list[str]]]:
    """Each environment with its cases, in their order. The first pattern that matches decides. A
    guest with systemd runs the cases of its own section only."""
    ordinary = [each for each in environments if each.cgroup != systemd.CGROUP]
    guests = {
        name: choose(environments if choose is _systemd else ordinary)
        for name, choose in SECTIONS.items()
    }
    placed: list[tuple[Environment, list[str]]] = [(each, []) for each in environments]
    for name in names:
        section = next((s for p, s in patterns.items() if fnmatch.fnmatchcase(name, p)), "")
        for environment, cases in placed:
            if any(environment is each for each in guests.get(section, ordinary)):
                cases.append(name)
    return placed


# Boots of one environment by their share of its cases. Each boot costs a few seconds; the smaller
# ones start last, so that no CPU waits long for the last guest.
SHARES = (2, 1, 1)
# Fewer cases run in one boot.
CASES_TO_SPLIT = 60


def boots(names: list[str]) -> list[list[str]]:
    """The cases of each boot. A suite stays whole: its cases may share what they set up."""
    if len(names) < CASES_TO_SPLIT:
        return [names] if names else []
    suites: dict[str, list[str]] = {}
    for name in names:
        suites.setdefault(name.partition(".")[0], []).append(name)
    parts: list[list[str]] = [[] for _ in SHARES]
    for suite in sorted(suites.values(), key=len, reverse=True):
        fullness = [len(part) / share for part, share in zip(parts, SHARES, strict=True)]
        parts[fullness.index(min(fullness))].extend(suite)
    order = {name: at for at, name in enumerate(names)}
    return [sorted(part, key=order.__getitem__) for part in parts if part]
