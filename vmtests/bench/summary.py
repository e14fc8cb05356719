# SPDX-License-Identifier: Apache-2.0
"""Medians, spread and ratios over the repetitions of each agent in each scenario."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .catalogue import REFERENCES
from .figures import Figures
from .runs import Result


@dataclass(frozen=True)
class Spread:
    """A median with its minimum and maximum; `n` values, possibly of more runs."""

    median: float
    least: float
    most: float
    n: int

    @staticmethod
    def of(values: Iterable[float | None]) -> Spread | None:
        known = [value for value in values if value is not None]
        if not known:
            return None
        return Spread(statistics.median(known), min(known), max(known), len(known))


@dataclass(frozen=True)
class Measure:
    """A column: where its value comes from, and how it is written."""

    key: str
    title: str
    unit: str
    meaning: str
    value: Callable[[Figures], float | None]
    digits: int = 0


MEASURES = (
    Measure("oom_events", "OOM", "", "kernel OOM kills, events", lambda f: f.oom_events),
    Measure("oom_processes", "procs", "", "processes the kernel killed for lack of memory",
            lambda f: f.oom_processes),
    Measure("crossing_to_signal_ms", "line→kill", "ms",
            "the agent's own line crossed, until the first SIGKILL of any pod, by any process",
            lambda f: f.crossing_to_signal_ms, 1),
    Measure("reported_to_signal_ms", "reported", "ms",
            "the same by the agent's log, from the charge that crossed; the sampler's rows are "
            "1 to 5 ms apart",
            lambda f: f.reported_to_signal_ms, 2),
    Measure("common_to_signal_ms", "100Mi→kill", "ms",
            "MemAvailable below 100 MiB, until the first SIGKILL; negative: acted before",
            lambda f: f.common_to_signal_ms, 1),
    Measure("signal_to_freed_ms", "kill→freed", "ms",
            "first SIGKILL until 80 % of what came free in the next 2 s was free",
            lambda f: f.signal_to_freed_ms, 1),
    Measure("unmap_ms", "munmap", "ms",
            "what the kernel needs in this guest to unmap as much memory, filled the same way",
            lambda f: f.unmap_ms, 1),
    Measure("freed_to_unmap", "freed/munmap", "", "kill→freed in terms of munmap",
            lambda f: f.signal_to_freed_ms / f.unmap_ms
            if f.signal_to_freed_ms is not None and f.unmap_ms else None, 2),
    Measure("minimum_available_mib", "min avail", "MiB", "least MemAvailable",
            lambda f: f.minimum_available_mib),
    Measure("below_common_ms", "<100Mi", "ms", "time with MemAvailable below 100 MiB",
            lambda f: f.below_common_ms),
    Measure("worst_stall_ms", "stall", "ms", "worst delay of an innocent Guaranteed pod",
            lambda f: f.worst_stall_ms),
    Measure("psi_full_ms", "PSI full", "ms", "time in which every task waited for memory",
            lambda f: f.psi_full_ms),
    Measure("agent_cpu_ms", "CPU", "ms", "agent's CPU from before go to the end",
            lambda f: f.agent_cpu_ms, 1),
    Measure("agent_rest_cpu_percent", "rest CPU", "%", "agent's CPU of one CPU, 2 s before go",
            lambda f: f.agent_rest_cpu_percent, 2),
    Measure("agent_rss_mib", "RSS", "MiB", "agent's resident memory when idle",
            lambda f: f.agent_rss_mib, 1),
    Measure("agent_hwm_mib", "HWM", "MiB", "the most it ever was", lambda f: f.agent_hwm_mib, 1),
    Measure("held_mib", "held", "MiB",
            "what a pod with a cold half holds at the end, with what zram holds of it",
            lambda f: f.held_mib, 1),
    Measure("touch_us", "touch", "us", "that pod's time for a tenth of its hot half",
            lambda f: f.touch_us, 1),
)  # fmt: skip


@dataclass
class Cell:
    """One agent in one scenario."""

    agent: str
    scenario: str
    runs: int = 0
    failures: list[str] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    actors: dict[str, int] = field(default_factory=dict)  # the first killer
    victims: dict[str, int] = field(default_factory=dict)  # pods killed, by how many runs
    spreads: dict[str, Spread | None] = field(default_factory=dict)

    def verdict(self) -> str:
        """`right` if it always was; otherwise how often it was what."""
        if not self.verdicts:
            return "failed"
        if len(self.verdicts) == 1:
            return next(iter(self.verdicts))
        return ", ".join(f"{word} {count}" for word, count in sorted(self.verdicts.items()))


def cells(results: list[Result]) -> list[Cell]:
    """In the order of the results, scenario by scenario."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for scenario in dict.fromkeys(result.scenario for result in results):
        for result in results:
            if result.scenario == scenario:
                groups.setdefault((scenario, result.agent), []).append(result)
    return [_cell(scenario, agent, group) for (scenario, agent), group in groups.items()]


def _cell(scenario: str, agent: str, group: list[Result]) -> Cell:
    cell = Cell(agent, scenario, len(group))
    cell.failures = [result.failure for result in group if result.failure]
    done = [result.figures for result in group if result.figures is not None]
    for figures in done:
        _count(cell.verdicts, figures.verdict)
        if figures.kills:
            _count(cell.actors, figures.kills[0].by)
        for kill in figures.kills:
            _count(cell.victims, kill.pod)
    cell.spreads = {m.key: Spread.of(m.value(figures) for figures in done) for m in MEASURES}
    return cell


def _count(counts: dict[str, int], word: str) -> None:
    counts[word] = counts.get(word, 0) + 1


@dataclass(frozen=True)
class Ratio:
    """Our latency against the fastest peer that acted before the kernel, in one scenario."""

    scenario: str
    agent: str
    ours_ms: float
    peer: str | None  # None: no peer acted before the kernel
    peer_ms: float | None
    peers: int  # how many were run
    reported_ms: float | None = None  # ours, as the agent reports it

    @property
    def ratio(self) -> float | None:
        return self.ours_ms / self.peer_ms if self.peer_ms else None


def ratios(all_cells: list[Cell], ours: set[str]) -> list[Ratio]:
    """Of crossing to signal, each agent from its own line."""
    found = []
    for cell in all_cells:
        own = cell.spreads.get("crossing_to_signal_ms")
        if cell.agent not in ours or own is None or "kernel" in cell.actors:
            continue
        others = [
            peer for peer in all_cells
            if peer.scenario == cell.scenario and peer.agent not in (*ours, *REFERENCES)
        ]  # fmt: skip
        peers = [
            (spread.median, peer.agent)
            for peer in others
            if peer.actors and "kernel" not in peer.actors
            and (spread := peer.spreads.get("crossing_to_signal_ms")) is not None
        ]  # fmt: skip
        fastest = min(peers, default=(None, None))
        own_report = cell.spreads.get("reported_to_signal_ms")
        found.append(
            Ratio(
                cell.scenario, cell.agent, own.median, fastest[1], fastest[0], len(others),
                own_report.median if own_report else None,
            )  # fmt: skip
        )
    return found


def as_json(all_cells: list[Cell]) -> list[dict[str, Any]]:
    return [
        {
            "agent": cell.agent,
            "scenario": cell.scenario,
            "runs": cell.runs,
            "failures": cell.failures,
            "verdicts": cell.verdicts,
            "first_killer": cell.actors,
            "victims": cell.victims,
            "measures": {
                key: None if spread is None
                else {"median": spread.median, "min": spread.least, "max": spread.most,
                      "n": spread.n}
                for key, spread in cell.spreads.items()
            },
        }
        for cell in all_cells
    ]  # fmt: skip
