# SPDX-License-Identifier: Apache-2.0
"""The result of one run: which pods died, what killed them, how fast, at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .catalogue import Line
from .runlog import SIGKILL, RunLog, Sample, Signal

# Every agent's latency is also measured from this line, whatever its own is.
COMMON_LINE = (Line("available", mib=100),)
COMMON_KIB = 100 * 1024
# A memory gain counts within this time of the first SIGKILL, and is complete at this share.
GAIN_US = 2_000_000
GAIN_SHARE = 0.8
GAIN_LEAST_KIB = 20 * 1024
# An agent that acts between two samples crossed its line on the way there.
BETWEEN_SAMPLES_US = 5_000


@dataclass(frozen=True)
class Kill:
    pod: str
    by: str
    at_ms: float  # after go


@dataclass
class Figures:
    """One run. None: did not happen, or is unknown."""

    verdict: str  # right, wrong, none
    kills: list[Kill]  # the first SIGKILL of each pod, in order
    oom_events: int
    oom_processes: int
    crossing_ms: float | None  # own line, after go
    crossing_to_signal_ms: float | None  # own line to the first SIGKILL
    reported_to_signal_ms: float | None  # the same by the agent's own log
    common_to_signal_ms: float | None  # MemAvailable < 100 MiB to the first SIGKILL
    signal_to_freed_ms: float | None
    unmap_ms: float | None  # the kernel's time to unmap as much, in the same guest
    signal_to_exit_ms: float | None  # last process of the first victim
    minimum_available_mib: float
    minimum_kubelet_available_mib: float
    below_common_ms: float
    worst_stall_ms: float
    psi_full_ms: float
    agent_cpu_ms: float | None  # from rest to the end of the run
    agent_rest_cpu_percent: float | None  # of one CPU, before go
    agent_rss_mib: float | None  # when idle
    agent_hwm_mib: float | None
    agent_restarts: int | None
    # Of a pod with a cold half: what it holds at the end, with what zram holds of it.
    held_mib: float | None
    touch_us: float | None  # to touch a tenth of its hot half
    sampler_gap_ms: float
    seconds: float  # from go to the end

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compute(
    log: RunLog, pods: set[str], guilty: frozenset[str], lines: tuple[Line, ...]
) -> Figures:
    """`lines`: where the agent acts; those that this run does not have are ignored."""
    go = int(log.facts["go"])
    end = int(log.facts["end"])
    seen = [sample for sample in log.samples if sample.at_us >= go]
    if not seen:
        raise ValueError("no sample after go")
    killing = external_kills(log, pods, go)
    first = min((signal.at_us for signal in killing.values()), default=None)
    own = crossing(log, lines, go, first) if lines else None
    common = crossing(log, COMMON_LINE, go, first)
    freed_at, gain = freed(log.samples, first)
    return Figures(
        verdict=verdict(set(killing), guilty),
        kills=[
            Kill(pod, author(log, signal), (signal.at_us - go) / 1000)
            for pod, signal in sorted(killing.items(), key=lambda item: item[1].at_us)
        ],
        oom_events=log.oom_events,
        oom_processes=seen[-1].oom_kills - log.samples[0].oom_kills,
        crossing_ms=None if own is None else (own - go) / 1000,
        crossing_to_signal_ms=_apart(own, first),
        reported_to_signal_ms=None if log.reported_us is None else log.reported_us / 1000,
        common_to_signal_ms=_apart(common, first),
        signal_to_freed_ms=_apart(first, freed_at),
        unmap_ms=_unmap_ms(log, gain),
        signal_to_exit_ms=_apart(first, _last_exit(log, killing)),
        minimum_available_mib=min(sample.available for sample in seen) / 1024,
        minimum_kubelet_available_mib=min(sample.kubelet_available for sample in seen) / 1024,
        below_common_ms=_below(seen, COMMON_KIB),
        worst_stall_ms=max(
            (d.late_us for d in log.delays if go <= d.at_us - d.late_us and d.at_us <= end),
            default=0,
        )
        / 1000,
        psi_full_ms=(seen[-1].full_us - seen[0].full_us) / 1000,
        agent_cpu_ms=_difference(log, "end_cpu_us", "rest_cpu_us", 1000),
        agent_rest_cpu_percent=_rest_share(log),
        agent_rss_mib=_mib(log.number("rest_rss_kib")),
        agent_hwm_mib=_mib(log.number("end_hwm_kib")),
        agent_restarts=int(restarts) if (restarts := log.number("end_restarts")) is not None
        else None,
        held_mib=_held_mib(log),
        touch_us=_ratio(log.number("end_touch_us"), log.number("end_touch_count")),
        sampler_gap_ms=max(
            (b.at_us - a.at_us for a, b in zip(seen, seen[1:], strict=False)), default=0
        )
        / 1000,
        seconds=(end - go) / 1_000_000,
    )  # fmt: skip


def external_kills(log: RunLog, pods: set[str], go: int) -> dict[str, Signal]:
    """The first SIGKILL that each pod got from outside.

    When PID 1 of a pod dies, the kernel kills the rest of the pod in its name, which is a
    consequence and not a decision."""
    found: dict[str, Signal] = {}
    for signal in sorted(log.signals, key=lambda each: each.at_us):
        if signal.number != SIGKILL or signal.at_us < go or signal.victim not in pods:
            continue
        if signal.sender == signal.victim and signal.pid not in log.marked:
            continue
        found.setdefault(signal.victim, signal)
    return found


def author(log: RunLog, signal: Signal) -> str:
    by_kernel = signal.from_kernel and signal.pid in log.marked
    return "kernel" if by_kernel else signal.sender


def verdict(victims: set[str], guilty: frozenset[str]) -> str:
    if not victims:
        return "none"
    return "right" if victims <= guilty else "wrong"


def crossing(
    log: RunLog, lines: tuple[Line, ...], go: int, signal: int | None
) -> float | None:
    """When the first of some lines was crossed, by linear interpolation between two samples.

    An agent can act before the next sample; then the trend of the last two before its signal
    shows when the line was crossed, or that it was not."""
    before: tuple[Sample, float] | None = None
    trend: tuple[tuple[Sample, float], tuple[Sample, float]] | None = None
    for sample, room in rooms(log, lines):
        if sample.at_us >= go and before is not None:
            a, b = before[1], room
            if a >= 0 > b:
                return before[0].at_us + (sample.at_us - before[0].at_us) * a / (a - b)
            if signal is not None and sample.at_us <= signal:
                trend = (before, (sample, room))
        before = (sample, room)
    if trend is None or signal is None:
        return None
    (early, a), (late, b) = trend
    if a <= b:
        return None
    at = late.at_us + (late.at_us - early.at_us) * b / (a - b)
    return at if at <= signal + BETWEEN_SAMPLES_US else None


def rooms(log: RunLog, lines: tuple[Line, ...]) -> Iterator[tuple[Sample, float]]:
    """The distance in KiB of each sample from the nearest of some lines; negative under it."""
    total_kib = int(log.facts["total_kib"])
    swap_kib = max(sample.swap_free for sample in log.samples)
    there = [line for line in lines if swap_kib or not line.with_swap]
    for sample in log.samples:
        known = [room for line in there if (room := _room(sample, line, total_kib, swap_kib))
                 is not None]  # fmt: skip
        if known:
            yield sample, min(known)


def _room(sample: Sample, line: Line, total_kib: int, swap_kib: int) -> float | None:
    reading = getattr(sample, line.reading)
    if reading is None:
        return None
    room = reading - line.kib(total_kib)
    if line.swap_percent is None or swap_kib == 0:
        return room
    return max(room, sample.swap_free - swap_kib * line.swap_percent / 100)


def freed(samples: list[Sample], first: int | None) -> tuple[int | None, int]:
    """When most of the memory freed after the first SIGKILL was free; and how much, in KiB."""
    if first is None:
        return None, 0
    before = [sample.free for sample in samples if sample.at_us <= first]
    after = [sample for sample in samples if first < sample.at_us <= first + GAIN_US]
    if not before or not after:
        return None, 0
    most = GAIN_SHARE * (max(sample.free for sample in after) - before[-1])
    if most < GAIN_SHARE * GAIN_LEAST_KIB:
        return None, 0
    return next(s.at_us for s in after if s.free - before[-1] >= most), round(most)


def _unmap_ms(log: RunLog, kib: int) -> float | None:
    size, took = log.number("unmap_kib"), log.number("unmap_us")
    return took / 1000 * kib / size if took is not None and size and kib else None


def _last_exit(log: RunLog, killing: dict[str, Signal]) -> int | None:
    if not killing:
        return None
    victim = min(killing.values(), key=lambda signal: signal.at_us).victim
    pids = {each.pid for each in log.signals if each.victim == victim and each.number == SIGKILL}
    times = [log.exits[pid] for pid in pids if pid in log.exits]
    return max(times, default=None)


def _below(samples: list[Sample], limit: float) -> float:
    pairs = zip(samples, samples[1:], strict=False)
    return sum(b.at_us - a.at_us for a, b in pairs if a.available < limit) / 1000


def _apart(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else (end - begin) / 1000


def _difference(log: RunLog, end: str, begin: str, divisor: float) -> float | None:
    a, b = log.number(begin), log.number(end)
    return None if a is None or b is None else (b - a) / divisor


def _rest_share(log: RunLog) -> float | None:
    cpu_ms = _difference(log, "rest_cpu_us", "start_cpu_us", 1000)
    seconds = _difference(log, "rest_monotonic", "start_monotonic", 1)
    return cpu_ms / 10 / seconds if cpu_ms is not None and seconds else None


def _held_mib(log: RunLog) -> float | None:
    itself, swapped = log.number("end_half_kib"), log.number("end_zram_kib")
    return None if itself is None or swapped is None else (itself + swapped) / 1024


def _ratio(sum_of: float | None, count: float | None) -> float | None:
    return None if sum_of is None or not count else sum_of / count


def _mib(kib: float | None) -> float | None:
    return None if kib is None else kib / 1024
