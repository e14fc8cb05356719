# SPDX-License-Identifier: Apache-2.0
"""Forestall's targets relative to its peers, and whether these runs reach them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .summary import Cell, Ratio

SHARE_OF_PEER = 0.1
SHARE_OF_IDLE = 3.0
SHARE_OF_EXIT = 1.3
SHARE_OF_COST = 0.2


@dataclass(frozen=True)
class Target:
    """One target in one scenario. `met` is None if these runs cannot decide it."""

    name: str
    scenario: str
    agent: str
    met: bool | None
    found: str

    def line(self) -> str:
        word = {True: "met", False: "MISSED", None: "unknown"}[self.met]
        return f"{self.name}: {self.scenario} {self.agent}: {word}: {self.found}"


def targets(
    cells: list[Cell], ratios: list[Ratio], ours: set[str], idle: Mapping[str, str],
    costs: frozenset[str] = frozenset(), peers: Mapping[str, str] = MappingProxyType({}),
) -> list[Target]:  # fmt: skip
    """`idle`: for a scenario under load, the same without it. `costs`: scenarios in which no pod is
    to die. `peers`: for an agent, the one that has the same rules."""
    by_name = {(cell.scenario, cell.agent): cell for cell in cells}
    own = [cell for cell in cells if cell.agent in ours and cell.scenario not in costs]
    return [
        *(
            _cost(cell, by_name.get((cell.scenario, peers[cell.agent]))) for cell in cells
            if cell.scenario in costs and cell.agent in peers
        ),
        *(_ahead(cell, by_name.get((cell.scenario, "none"))) for cell in own),
        *(_faster(ratio) for ratio in ratios),
        *_under_load(own, by_name, idle),
        *(
            target for cell in own
            if (target := _freed(cell, by_name.get((cell.scenario, "plain-exit")))) is not None
        ),
    ]


def _ahead(cell: Cell, unguarded: Cell | None) -> Target:
    """Never the kernel, never the wrong one. A failed run proves nothing, but is counted.

    Three sources for a kill by the kernel, as each may have missed it: its log, its counter, and
    the sender of the first SIGKILL."""
    ooms = cell.spreads.get("oom_events")
    kills = "no run" if ooms is None else f"kernel OOM kills {ooms.least:.0f}..{ooms.most:.0f}"
    window = unguarded.spreads.get("crossing_to_signal_ms") if unguarded else None
    left = f"; alone the kernel kills {window.median:.0f} ms after the line" if window else ""
    counts = [cell.spreads.get(key) for key in ("oom_events", "oom_processes")]
    never = all(count is not None and count.most == 0 for count in counts)
    met = never and "kernel" not in cell.actors and set(cell.verdicts) == {"right"}
    return Target(
        "first and right", cell.scenario, cell.agent, met and not cell.failures,
        f"{cell.runs} runs, {len(cell.failures)} failed, {kills}, victim {cell.verdict()}{left}",
    )  # fmt: skip


def _cost(cell: Cell, peer: Cell | None) -> Target:
    name = f"CPU, at most {SHARE_OF_COST:g} of the peer's with the same rules"
    took = cell.spreads.get("agent_cpu_ms")
    theirs = peer.spreads.get("agent_cpu_ms") if peer else None
    clean = not cell.failures and set(cell.verdicts) == {"none"}
    if took is None or peer is None or theirs is None or theirs.median <= 0:
        return Target(name, cell.scenario, cell.agent, None, "one of them has no such time")
    found = (
        f"{took.median:.1f} ms, {peer.agent} {theirs.median:.1f} ms: "
        f"{took.median / theirs.median:.3f}; victim {cell.verdict()}"
    )
    met = clean and took.median <= SHARE_OF_COST * theirs.median
    return Target(name, cell.scenario, cell.agent, met, found)


def _faster(ratio: Ratio) -> Target:
    name = f"line→kill, at most {SHARE_OF_PEER:g} of the fastest peer's"
    if ratio.ratio is None:
        found = f"{ratio.ours_ms:.2f} ms; no peer acted before the kernel, or its time is 0"
        return Target(name, ratio.scenario, ratio.agent, None, found)
    reported = "" if ratio.reported_ms is None else f" ({ratio.reported_ms:.2f} by its own account)"
    peer = f"{ratio.peer} {ratio.peer_ms:.2f} ms"
    found = f"{ratio.ours_ms:.2f} ms{reported}, {peer}: {ratio.ratio:.3f}"
    return Target(name, ratio.scenario, ratio.agent, ratio.ratio <= SHARE_OF_PEER, found)


def _under_load(
    own: list[Cell], by_name: dict[tuple[str, str], Cell], idle: Mapping[str, str]
) -> Iterator[Target]:
    for cell in own:
        other = by_name.get((idle.get(cell.scenario, ""), cell.agent))
        if other is None:
            continue
        loaded = cell.spreads.get("crossing_to_signal_ms")
        calm = other.spreads.get("crossing_to_signal_ms")
        name = f"line→kill, at most {SHARE_OF_IDLE:g} x the idle node's"
        if loaded is None or calm is None or calm.median <= 0:
            yield Target(name, cell.scenario, cell.agent, None, "one of them has no such time")
            continue
        ratio = loaded.median / calm.median
        found = f"{loaded.median:.2f} ms, idle {calm.median:.2f} ms: {ratio:.2f}"
        yield Target(name, cell.scenario, cell.agent, ratio <= SHARE_OF_IDLE, found)


def _freed(cell: Cell, plain: Cell | None) -> Target | None:
    """Compared with an exit of the same processes that nothing helps.

    munmap of as much memory is for information: it has no processes to end."""
    took = cell.spreads.get("signal_to_freed_ms")
    if took is None:
        return None
    found = f"{took.median:.1f} ms"
    unmap = cell.spreads.get("unmap_ms")
    if unmap is not None:
        found += f", munmap of as much {unmap.median:.1f} ms"
    name = f"kill→freed, at most {SHARE_OF_EXIT:g} x a plain exit"
    exit_ = plain.spreads.get("signal_to_freed_ms") if plain else None
    if exit_ is None or exit_.median <= 0:
        return Target(name, cell.scenario, cell.agent, None, f"{found}; no plain exit was run")
    ratio = took.median / exit_.median
    found += f", a plain exit {exit_.median:.1f} ms: {ratio:.2f}"
    return Target(name, cell.scenario, cell.agent, ratio <= SHARE_OF_EXIT, found)
