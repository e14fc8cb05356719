#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Forestall and its peers through the same shortages of memory, and compares.

Every run resumes one machine: Debian 12 under QEMU, steady pods, no agent. Then
an agent starts, a scenario's pods start, and at "go" they do what they do. Time
in the guest is counted in instructions, so a busy host does not change it.

    vmtests/bench.py                                       everything, once
    vmtests/bench.py --repetitions 5                       medians and spread
    vmtests/bench.py --agents forestall,earlyoom --scenarios fast-leak,spike
    vmtests/bench.py --list                                what there is

An agent is a folder, vmtests/bench/agents/NAME, with a start script; a scenario
is a file, vmtests/bench/scenarios/NAME.toml.

In the output folder: results.json, table.txt, index.html, plot.png (with
python3-matplotlib) and logs/, what every run sent, also of those that failed.

The first time it makes the guest's disk with debootstrap (as root, minutes) and
boots the machine; both are kept in --cache.

Exit status: 0 all runs were measured, 1 some failed (they are listed, and the
others reported), 2 nothing could be run as asked.

Needs: qemu-system-x86, debootstrap, busybox-static, e2fsprogs, kmod, and the
targets `forestall` and `bench_guest` built.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import catalogue, debian, page, payload, summary, table
from bench.catalogue import Agent, CatalogueError, Scenario
from bench.debian import DiskError
from bench.qemu import Hardware, MachineError
from bench.runs import Bench, Job, Result, measure
from harness import kernels
from harness.guest import QEMU, Fleet
from harness.image import ImageError
from harness.libraries import MissingLibrary
from run import default_cache

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
DEFAULT_BUILD = REPOSITORY / "build/release"
BUILT = {"forestall": "userspace/cli/forestall"} | {
    name: f"vmtests/bench/guest/{name}" for name in payload.GUEST_PROGRAMS
}


class Unusable(Exception):
    """The bench cannot begin as asked; the text says why."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--agents", metavar="A,B", help="default: the eight of --list that are marked")
    add("--scenarios", metavar="A,B", help="default: the eight of --list that are marked")
    add("--repetitions", type=int, default=1, metavar="N", help="of each pair (default: 1)")
    add("--kernel", default="6.12", choices=[track.label for track in kernels.TRACKS])
    add("--memory", type=int, default=2048, metavar="MIB", help="default: %(default)s")
    add("--seed", type=int, metavar="N", help="shifts when go falls (default: drawn, printed)")
    add("--cold", action="store_true", help="boot for every run instead of resuming one machine")
    add("--jobs", type=int, default=1, metavar="N", help="guests at once (default: 1)")
    add("--binaries", type=Path, default=DEFAULT_BUILD, metavar="DIR",
        help="build directory (default: build/release)")  # fmt: skip
    add("--binary", type=Path, action="append", default=[], metavar="PATH",
        help="a program instead of the build directory's of that name; repeatable")  # fmt: skip
    add("--output", type=Path, metavar="DIR", help="default: build/bench/results/TIME")
    add("--cache", type=Path, default=REPOSITORY / "build/bench", metavar="DIR",
        help="disks and the saved machine (default: build/bench)")  # fmt: skip
    add("--kernels", type=Path, default=default_cache(), metavar="DIR",
        help="run.py's cache of kernels (default: %(default)s)")  # fmt: skip
    add("--list", action="store_true", help="print agents and scenarios, run nothing")
    add("--report", type=Path, metavar="DIR", help="write the reports of an earlier run anew")
    return parser.parse_args(arguments)


def choose(
    what: str, asked: str | None, known: dict[str, object], default: tuple[str, ...]
) -> list[str]:
    """The names asked for, each once, in the order asked."""
    names = list(dict.fromkeys(asked.split(","))) if asked else list(default)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Unusable(f"no {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def find_programs(options: argparse.Namespace) -> dict[str, Path]:
    given = {path.name: path for path in options.binary}
    programs = {}
    for name, below in BUILT.items():
        path = given.get(name, options.binaries / below)
        if not path.is_file():
            raise Unusable(f"{path} does not exist: build `forestall` and `bench_guest`")
        programs[name] = path.resolve()
    return programs


def plan(agents: list[Agent], scenarios: list[Scenario], repetitions: int, seed: int) -> list[Job]:
    """Repetition by repetition, so that an interrupted bench has some of everything."""
    return [
        Job(agent, scenario, repetition, seed)
        for repetition in range(1, repetitions + 1)
        for scenario in scenarios
        for agent in agents
    ]


class Session:
    """One invocation: its output folder and what it has measured so far."""

    def __init__(
        self, output: Path, agents: list[Agent], scenarios: list[Scenario], facts: dict[str, str]
    ) -> None:
        self.output = output
        self.results: list[Result] = []
        self._agents = agents
        self._scenarios = scenarios
        self._facts = facts

    def write(self) -> list[str]:
        """All reports of what there is; returns the table."""
        order = {agent.name: number for number, agent in enumerate(self._agents)}
        ordered = sorted(self.results, key=lambda r: (order[r.agent], r.repetition))
        cells = summary.cells(
            [r for s in self._scenarios for r in ordered if r.scenario == s.name]
        )
        ratios = summary.ratios(cells, {agent.name for agent in self._agents if agent.ours})
        titles = {scenario.name: scenario.title for scenario in self._scenarios}
        content = {
            "facts": self._facts,
            "agents": [agent.name for agent in self._agents],
            "scenarios": [scenario.name for scenario in self._scenarios],
            "summary": summary.as_json(cells),
            "ratios": [dataclasses.asdict(ratio) | {"ratio": ratio.ratio} for ratio in ratios],
            "runs": [dataclasses.asdict(result) for result in self.results],
        }
        results = self.output / "results.json"
        results.write_text(json.dumps(content, indent=1) + "\n")
        picture = draw(results, self.output / "plot.png")
        text = table.lines(cells, titles, ratios)
        (self.output / "table.txt").write_text("\n".join(text) + "\n")
        (self.output / "index.html").write_text(
            page.render(cells, self._agents, self._scenarios, ratios, self._facts, picture)
        )
        return text


def draw(results: Path, target: Path) -> str | None:
    """The picture, by whichever Python has matplotlib; nothing if none has."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, str(HERE / "bench/plot.py"), str(results), str(target)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return target.name
    say("no picture: matplotlib is not installed (package python3-matplotlib)")
    return None


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def tell(result: Result) -> None:
    """One line about a run, as soon as it is over."""
    head = f"{result.scenario:<14}{result.agent:<17}{result.repetition}  "
    tail = f"  ({result.host_seconds:.0f} s)"
    f = result.figures
    if f is None:
        say(f"{head}FAILED: {result.failure}{tail}")
        return
    kills = ", ".join(f"{kill.by} killed {kill.pod} at {kill.at_ms:.0f} ms" for kill in f.kills)
    late = "-" if f.crossing_to_signal_ms is None else f"{f.crossing_to_signal_ms:.1f} ms"
    say(f"{head}{f.verdict:<7}{kills or 'nobody was killed'}; line→kill {late}, "
        f"kernel OOM {f.oom_events}, stall {f.worst_stall_ms:.0f} ms{tail}")  # fmt: skip


def run_all(bench: Bench, jobs: list[Job], session: Session, options: argparse.Namespace,
            fleet: Fleet) -> None:  # fmt: skip
    def one(job: Job) -> Result:
        return bench.run(job, session.output, not options.cold)

    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        futures = [pool.submit(one, job) for job in jobs]
        try:
            for future in futures:
                session.results.append(future.result())
                tell(session.results[-1])
        except BaseException:
            # Leaving the pool waits for its threads, and they for their guests.
            for future in futures:
                future.cancel()
            fleet.stop()
            raise


def execute(options: argparse.Namespace, scratch: Path, fleet: Fleet) -> int:
    known_agents, known_scenarios = catalogue.agents(), catalogue.scenarios()
    if options.list:
        print_catalogue(known_agents, known_scenarios)
        return 0
    if options.report:
        return report_again(options.report, known_agents, known_scenarios)
    agents = [known_agents[name] for name in choose(
        "agent", options.agents, known_agents, catalogue.DEFAULT_AGENTS)]  # fmt: skip
    scenarios = [known_scenarios[name] for name in choose(
        "scenario", options.scenarios, known_scenarios, catalogue.DEFAULT_SCENARIOS)]  # fmt: skip
    if options.repetitions < 1:
        raise Unusable("--repetitions must be at least 1")
    programs = find_programs(options)
    seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    folder = options.output or options.cache / "results" / time.strftime("%Y%m%d-%H%M%S")
    output = folder.resolve()
    output.mkdir(parents=True, exist_ok=True)
    options.cache.mkdir(parents=True, exist_ok=True)
    kernel = find_kernel(options)
    say(f"seed {seed}, {kernel.release}, {options.memory} MiB, results in {output}")
    steady = catalogue.steady()
    load = payload.build(
        scratch, programs, steady, list(known_scenarios.values()), options.memory << 20
    )
    disks = (
        debian.root_disk(options.cache), load.early, debian.data_disk(options.cache), load.late,
    )  # fmt: skip
    initramfs = payload.initramfs(kernel, scratch)
    hardware = Hardware(kernel.boot_file, initramfs, disks, options.memory)
    bench = Bench(fleet, hardware, load.key, options.cache, scratch, steady, say)
    if not options.cold:
        bench.prepare()
    facts = {
        "kernel": kernel.release, "memory": f"{options.memory} MiB", "seed": str(seed),
        "repetitions": str(options.repetitions), "date": time.strftime("%Y-%m-%d %H:%M"),
        "machine": "booted for each run" if options.cold else "one, resumed for each run",
    }  # fmt: skip
    session = Session(output, agents, scenarios, facts)
    jobs = plan(agents, scenarios, options.repetitions, seed)
    try:
        run_all(bench, jobs, session, options, fleet)
    finally:
        if session.results:
            facts["runs"] = f"{len(session.results)} of {len(jobs)}"
            text = session.write()
    print("\n".join(text))
    return 1 if any(result.failure for result in session.results) else 0


def find_kernel(options: argparse.Namespace) -> kernels.Kernel:
    track = next(track for track in kernels.TRACKS if track.label == options.kernel)
    return kernels.Store(options.kernels, 14, refresh=False).get(track)


def print_catalogue(agents: dict[str, Agent], scenarios: dict[str, Scenario]) -> None:
    print("agents")
    for name, agent in agents.items():
        print(f"  {'*' if name in catalogue.DEFAULT_AGENTS else ' '} {name:<18}{agent.title}")
    print("scenarios")
    for name, scenario in scenarios.items():
        mark = "*" if name in catalogue.DEFAULT_SCENARIOS else " "
        print(f"  {mark} {name:<18}{scenario.title}")


def report_again(
    output: Path, agents: dict[str, Agent], scenarios: dict[str, Scenario]
) -> int:
    """From results.json and the logs, with this version's arithmetic."""
    content = json.loads((output / "results.json").read_text())
    session = Session(
        output, [agents[name] for name in content["agents"]],
        [scenarios[name] for name in content["scenarios"]], content["facts"],
    )  # fmt: skip
    steady = {pod.name for pod in catalogue.steady()}
    for run in content["runs"]:
        result = Result(**{**run, "figures": None})
        measure(result, output, agents[result.agent], scenarios[result.scenario], steady)
        session.results.append(result)
    print("\n".join(session.write()))
    return 1 if any(result.failure for result in session.results) else 0


def interrupted(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, interrupted)
    if shutil.which(QEMU) is None:
        say(f"{QEMU} is not installed")
        return 2
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    fleet = Fleet()
    try:
        return execute(options, scratch, fleet)
    except (Unusable, CatalogueError, DiskError, ImageError, MissingLibrary, MachineError,
            kernels.FetchError) as error:  # fmt: skip
        say(str(error))
        return 2
    except (OSError, subprocess.SubprocessError) as error:
        say(f"{type(error).__name__}: {error}")
        return 2
    except KeyboardInterrupt:
        say("interrupted; what was measured is in the output folder")
        return 2
    finally:
        fleet.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
