# SPDX-License-Identifier: Apache-2.0
"""The summary as text: one table a scenario, one line an agent, then ratios and targets."""

from __future__ import annotations

from .summary import MEASURES, Cell, Measure, Ratio, Spread
from .targets import Target


def number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text


def spread_text(spread: Spread | None, measure: Measure) -> str:
    """`12`, or `12 [9..31]` if the runs differ."""
    if spread is None:
        return "-"
    middle, least, most = (
        number(value, measure.digits) for value in (spread.median, spread.least, spread.most)
    )
    return middle if least == most else f"{middle} [{least}..{most}]"


def counts_text(counts: dict[str, int], runs: int) -> str:
    """Names; with the number of runs if it was not every run."""
    if not counts:
        return "-"
    return " ".join(
        name if count == runs else f"{name}({count}/{runs})" for name, count in counts.items()
    )


def row(cell: Cell) -> list[str]:
    return [
        cell.agent,
        f"{cell.runs - len(cell.failures)}/{cell.runs}",
        cell.verdict(),
        counts_text(cell.actors, cell.runs),
        counts_text(cell.victims, cell.runs),
        *(spread_text(cell.spreads.get(measure.key), measure) for measure in MEASURES),
    ]


def headings() -> list[str]:
    units = [f"{m.title} {m.unit}".strip() for m in MEASURES]
    return ["agent", "runs", "victim", "by", "killed", *units]


def lines(
    cells: list[Cell], titles: dict[str, str], ratios: list[Ratio], aims: list[Target]
) -> list[str]:
    text: list[str] = []
    for scenario in dict.fromkeys(cell.scenario for cell in cells):
        rows = [headings(), *(row(cell) for cell in cells if cell.scenario == scenario)]
        text += [f"{scenario}: {titles.get(scenario, '')}", *aligned(rows), ""]
    for cell in cells:
        for failure in cell.failures:
            text.append(f"FAILED {cell.scenario} {cell.agent}: {failure}")
    text += [ratio_line(ratio) for ratio in ratios]
    if aims:
        text += ["", "targets", *(f"  {aim.line()}" for aim in aims)]
    return text


def aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip()
        for each in rows
    ]


def ratio_line(ratio: Ratio) -> str:
    reported = "" if ratio.reported_ms is None else f" ({ratio.reported_ms:.2f} by its own account)"
    took = f"{ratio.ours_ms:.2f} ms{reported}"
    head = f"{ratio.scenario}: {ratio.agent} {took} from its line to SIGKILL"
    if ratio.peer is None:
        return f"{head}; no peer {'acted before the kernel' if ratio.peers else 'was run'}"
    compared = f"{head}; the fastest peer, {ratio.peer}, {ratio.peer_ms:.2f} ms"
    return compared if ratio.ratio is None else f"{compared}: ratio {ratio.ratio:.3f}"
