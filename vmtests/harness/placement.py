# SPDX-License-Identifier: Apache-2.0
"""Which case runs in which guest: every case in every guest, except those listed as independent of
the kernel, which run in one."""

from __future__ import annotations

import fnmatch

from .campaign import Environment

# The guest of the listed cases, if it is part of the run: a stable kernel with the cgroup version
# that the host of the tests may lack.
PREFERRED = ("6.12", "v2")


def parse_patterns(text: str) -> list[str]:
    """The patterns of once.txt, without comments and empty lines."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def unmatched(patterns: list[str], names: list[str]) -> list[str]:
    """Patterns that match no case: the case was renamed or removed."""
    return [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def place(
    environments: list[Environment], names: list[str], once: list[str]
) -> list[tuple[Environment, list[str]]]:
    """Each environment with its cases, in their order."""
    listed = {name for pattern in once for name in fnmatch.filter(names, pattern)}
    everywhere = [name for name in names if name not in listed]
    home = next((e for e in environments if (e.label, e.cgroup) == PREFERRED), None)
    if home is None and environments:
        home = environments[0]
    return [(e, names if e is home else everywhere) for e in environments]
