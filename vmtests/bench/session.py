# SPDX-License-Identifier: Apache-2.0
"""An output folder and its contents: logs, results.json and the reports made of them.

Figures are always computed from the logs, so an improved computation applies to old runs as well,
and later invocations can add to a folder."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from . import catalogue, page, summary, table
from .catalogue import HERE, Agent, Scenario
from .runs import Result, measure
from .targets import targets


class Session:
    """An output folder: the measurements of this and earlier invocations."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.results: list[Result] = []
        self.invocations: list[dict[str, str]] = []

    @staticmethod
    def of(output: Path, agents: dict[str, Agent], scenarios: dict[str, Scenario]) -> Session:
        """Includes the earlier runs, computed again from their logs."""
        session = Session(output)
        file = output / "results.json"
        if not file.exists():
            return session
        content = json.loads(file.read_text())
        session.invocations = content["invocations"]
        # With the lines of nodes of every size.
        steady = {pod.name for pod in catalogue.steady(catalogue.STEADY_FOR_MIB + 1)}
        for run in content["runs"]:
            result = Result(**{**run, "figures": None})
            if result.agent not in agents or result.scenario not in scenarios:
                continue  # made with another catalogue
            session.results.append(result)
            measure(result, output, agents[result.agent], scenarios[result.scenario], steady)
        return session

    def begin(self, facts: dict[str, str]) -> None:
        self.invocations.append(facts)

    def add(self, result: Result) -> None:
        result.invocation = len(self.invocations) - 1
        self.results.append(result)

    def repetitions(self, agent: str, scenario: str) -> int:
        done = [r.repetition for r in self.results if (r.agent, r.scenario) == (agent, scenario)]
        return max(done, default=0)

    def write(self, agents: dict[str, Agent], scenarios: dict[str, Scenario]) -> list[str]:
        """All reports of what there is, in the catalogue's order; returns the table."""
        ordered = [
            result
            for scenario in scenarios for agent in agents for result in self.results
            if (result.agent, result.scenario) == (agent, scenario)
        ]  # fmt: skip
        cells = summary.cells(ordered)
        ours = {agent.name for agent in agents.values() if agent.ours}
        ratios = summary.ratios(cells, ours)
        idle = {scenario.name: scenario.idle for scenario in scenarios.values() if scenario.idle}
        costs = frozenset(scenario.name for scenario in scenarios.values() if scenario.cost)
        peers = {agent.name: agent.peer for agent in agents.values() if agent.peer}
        aims = targets(cells, ratios, ours, idle, costs, peers)
        content = {
            "invocations": self.invocations,
            "summary": summary.as_json(cells),
            "ratios": [dataclasses.asdict(ratio) | {"ratio": ratio.ratio} for ratio in ratios],
            "targets": [dataclasses.asdict(aim) for aim in aims],
            "runs": [dataclasses.asdict(result) for result in self.results],
        }
        results = self.output / "results.json"
        results.write_text(json.dumps(content, indent=1) + "\n")
        picture = draw(results, self.output / "plot.png")
        titles = {scenario.name: scenario.title for scenario in scenarios.values()}
        text = table.lines(cells, titles, ratios, aims)
        if picture is None:
            text.append("no picture: matplotlib is not installed (package python3-matplotlib)")
        (self.output / "table.txt").write_text("\n".join(text) + "\n")
        named = {cell.agent for cell in cells}
        shown = [agent for agent in agents.values() if agent.name in named]
        (self.output / "index.html").write_text(
            page.render(cells, shown, titles, ratios, aims, self.invocations, picture)
        )
        return text


def draw(results: Path, target: Path) -> str | None:
    """The picture, by any Python that has matplotlib; nothing if none has."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, str(HERE / "plot.py"), str(results), str(target)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return target.name
    return None
