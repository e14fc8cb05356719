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
python3-matplotlib) and logs/, what every run sent, also of those that failed. A
folder that holds results already is added to.

The first time it makes the guest's disk with debootstrap (as root, minutes) and
boots the machine; both are kept in --cache.

Exit status: 0 all runs were measured, 1 some failed (they are listed, and the
others reported), 2 nothing could be run as requested.

Needs: what `scripts/install_packages.sh bench` installs, and the targets
`forestall` and `bench_guest` built.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import catalogue, debian, payload
from bench.catalogue import Agent, CatalogueError, Scenario
from bench.debian import DiskError
from bench.qemu import Hardware, MachineError
from bench.runs import Bench, Job, Result
from bench.session import Session
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
    """The bench cannot start with these arguments; the text has the reason."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--agents", metavar="A,B", help="default: those that --list marks")
    add("--scenarios", metavar="A,B", help="default: those that --list marks")
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
    """The requested names, each once, in the requested order."""
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


def plan(
    agents: list[Agent], scenarios: list[Scenario], repetitions: int, seed: int, session: Session
) -> list[Job]:
    """Repetition by repetition, so that an interrupted bench has some of everything."""
    return [
        Job(agent, scenario, session.repetitions(agent.name, scenario.name) + repetition, seed)
        for repetition in range(1, repetitions + 1)
        for scenario in scenarios
        for agent in agents
    ]


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def report(result: Result) -> None:
    """One line about a run, printed at its end."""
    head = f"{result.scenario:<14}{result.agent:<17}{result.repetition}  "
    tail = f"  ({result.host_seconds:.0f} s)"
    f = result.figures
    if f is None:
        say(f"{head}FAILED: {result.failure}{tail}")
        return
    kills = ", ".join(f"{kill.by} killed {kill.pod} at {kill.at_ms:.0f} ms" for kill in f.kills)
    late = "-" if f.crossing_to_signal_ms is None else f"{f.crossing_to_signal_ms:.1f} ms"
    say(f"{head}{f.verdict:<7}{kills or 'no pod was killed'}; line→kill {late}, "
        f"kernel OOM {f.oom_events}, stall {f.worst_stall_ms:.0f} ms{tail}")  # fmt: skip


def run_all(bench: Bench, jobs: list[Job], session: Session, options: argparse.Namespace,
            fleet: Fleet) -> None:  # fmt: skip
    def one(job: Job) -> Result:
        return bench.run(job, session.output, not options.cold)

    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        futures = [pool.submit(one, job) for job in jobs]
        try:
            for future in futures:
                session.add(future.result())
                report(session.results[-1])
        except BaseException:
            # Leaving the pool waits for its threads, which wait for their guests.
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
    bench = make_bench(options, kernel, programs, list(known_scenarios.values()), scratch, fleet)
    if not options.cold:
        bench.prepare()
    facts = {
        "date": time.strftime("%Y-%m-%d %H:%M"), "kernel": kernel.release,
        "memory": f"{options.memory} MiB", "seed": str(seed),
        "machine": "booted for each run" if options.cold else "one, resumed for each run",
        "forestall": hashlib.sha256(programs["forestall"].read_bytes()).hexdigest()[:12],
    }  # fmt: skip
    session = Session.of(output, known_agents, known_scenarios)
    jobs = plan(agents, scenarios, options.repetitions, seed, session)
    session.begin(facts)
    try:
        run_all(bench, jobs, session, options, fleet)
    finally:
        if session.results:
            text = session.write(known_agents, known_scenarios)
    print("\n".join(text))
    return 1 if any(result.failure for result in session.results) else 0


def report_again(
    folder: Path, agents: dict[str, Agent], scenarios: dict[str, Scenario]
) -> int:
    if not (folder / "results.json").exists():
        raise Unusable(f"{folder} holds no results.json")
    session = Session.of(folder.resolve(), agents, scenarios)
    print("\n".join(session.write(agents, scenarios)))
    return 1 if any(result.failure for result in session.results) else 0


def make_bench(
    options: argparse.Namespace, kernel: kernels.Kernel, programs: dict[str, Path],
    scenarios: list[Scenario], scratch: Path, fleet: Fleet,
) -> Bench:  # fmt: skip
    """Its disks: Debian, what the saved machine uses, a big file, what a run finds."""
    steady = catalogue.steady(options.memory)
    load = payload.build(scratch, programs, steady, scenarios, options.memory << 20)
    disks = (
        debian.root_disk(options.cache), load.early, debian.data_disk(options.cache), load.late,
    )  # fmt: skip
    initramfs = payload.initramfs(kernel, scratch)
    hardware = Hardware(kernel.boot_file, initramfs, disks, options.memory)
    return Bench(fleet, hardware, load.key, options.cache, scratch, steady, say)


def find_kernel(options: argparse.Namespace) -> kernels.Kernel:
    track = next(track for track in kernels.TRACKS if track.label == options.kernel)
    return kernels.Store(options.kernels, 14, refresh=False).get(track)


def print_catalogue(agents: dict[str, Agent], scenarios: dict[str, Scenario]) -> None:
    print("agents")
    for name, agent in agents.items():
        print(f"  {'*' if name in catalogue.DEFAULT_AGENTS else ' '} {name:<22}{agent.title}")
    print("scenarios")
    for name, scenario in scenarios.items():
        mark = "*" if name in catalogue.DEFAULT_SCENARIOS else " "
        print(f"  {mark} {name:<22}{scenario.title}")


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
