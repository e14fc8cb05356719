#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws results.json as a picture: plot.py results.json plot.png

A program of its own, as it needs matplotlib (package python3-matplotlib), which
may belong to another Python than the one that runs the bench.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

# The last is the smallest drawn value: the axes are logarithmic, and smaller ones are drawn there.
PANELS = (
    ("crossing_to_signal_ms", "own line crossed → first SIGKILL, ms (at 0.1: not later)", 0.1),
    ("worst_stall_ms", "worst stall of an innocent pod, ms", 1.0),
    ("psi_full_ms", "every task waiting for memory (PSI full), ms (at 1: at most that)", 1.0),
)
# Blue is Forestall; the kernel alone is grey. Distinct under the common colour blindnesses.
COLOURS = {
    "forestall": "#0b5cad", "forestall-nobpf": "#6fb1e8", "forestall-growth": "#0a8f8f",
    "forestall-guard": "#3f3fae", "earlyoom": "#d55e00",
    "nohang": "#e69f00", "oomd": "#8a5a9e", "systemd-oomd": "#cc79a7", "kubelet-poll": "#009e73",
    "none": "#7f868f", "plain-exit": "#b8bec6",
}  # fmt: skip


def main(source: str, target: str) -> int:
    content = json.loads(Path(source).read_text())
    cells = content["summary"]
    agents = list(dict.fromkeys(cell["agent"] for cell in cells))
    scenarios = list(dict.fromkeys(cell["scenario"] for cell in cells))
    figure, axes = pyplot.subplots(len(PANELS), 1, figsize=(14, 12), sharex=True)
    for axis, (key, title, least) in zip(axes, PANELS, strict=True):
        for number, agent in enumerate(agents):
            draw(axis, cells, (key, least), agent, scenarios, (number, len(agents)))
        for at in range(0, len(scenarios), 2):
            axis.axvspan(at - 0.5, at + 0.5, color="#f3f5f8", zorder=0)
        axis.set_xlim(-0.5, len(scenarios) - 0.5)
        axis.set_yscale("log")
        axis.set_ylim(bottom=least * 0.7, top=max(axis.get_ylim()[1], least * 10) * 1.5)
        axis.set_title(title, loc="left", fontsize=11)
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[-1].set_xticks(range(len(scenarios)), scenarios)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=len(agents), frameon=False,
                  bbox_to_anchor=(0.5, 0.965))  # fmt: skip
    figure.suptitle(
        "Median, least and most; hollow: the kernel's OOM killer acted first; "
        "x: an innocent pod was killed",
        fontsize=12,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(target, dpi=110)
    return 0


def draw(
    axis: Any, cells: list[dict[str, Any]], what: tuple[str, float], agent: str,
    scenarios: list[str], place: tuple[int, int],
) -> None:  # fmt: skip
    key, least = what
    colour = COLOURS.get(agent, "#444444")
    axis.plot([], [], "o", color=colour, label=agent)
    for cell in (each for each in cells if each["agent"] == agent):
        spread = cell["measures"][key]
        if spread is None:
            continue
        at = scenarios.index(cell["scenario"]) + 0.8 * ((place[0] + 0.5) / place[1] - 0.5)
        low, middle, high = (max(spread[name], least) for name in ("min", "median", "max"))
        by_kernel = "kernel" in cell["first_killer"]
        wrong = "wrong" in cell["verdicts"]
        axis.vlines(at, low, high, color=colour, alpha=0.6)
        axis.plot(at, middle, "X" if wrong else "o", color=colour, markersize=8,
                  markerfacecolor="white" if by_kernel else colour)  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1], sys.argv[2]))
