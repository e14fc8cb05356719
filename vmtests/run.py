#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots Debian kernels under QEMU and runs the VM cases inside them.

Unit tests cannot show what a kernel does under memory pressure, and the host
this is developed on allows neither fentry programs nor more than one version
of the memory controller. So the cases run in small guests, one boot per
kernel and cgroup version:

    6.1 v1   6.1 v2   6.12 v2   6.12 systemd   newest v2 (Debian sid, 7.2 when this was written)

In "6.12 systemd", PID 1 is this machine's systemd, with its D-Bus. The cases of the section
"systemd" of vmtests/placement.txt run there and nowhere else, and no other case does.

vmtests/placement.txt lists the cases that need not run in every guest, with
the reasons. Cases named with --case run in every other guest.

The cases of an environment are split over a few boots, which run at the same
time as far as --jobs permits.

Examples
    vmtests/run.py                                 everything, from build/release
    vmtests/run.py --kernel 6.1 --cgroup v1        one environment
    vmtests/run.py --case 'Guard.*'                some cases everywhere
    vmtests/run.py --kernel 6.12 --run 'cat /proc/pressure/memory'
    vmtests/run.py --kernel newest --shell         a shell inside

What a case finds in the guest
    FORESTALL_BIN        /forestall/bin/forestall
    FORESTALL_TEST_ENV   vm:<6.1|6.12|newest>:<v1|v2|systemd>
    root with every capability, 2 CPUs (--cpus), no swap and no network but lo; /tmp and
    /run are tmpfs; 4 free huge pages of 2 MiB; tracefs, debugfs and bpffs are
    mounted; zram, loop and brd are loaded; busybox is /bin, with mkfs.ext4
    beside it. v2: cgroup2 on /sys/fs/cgroup with every controller in
    subtree_control. v1: each controller in its own folder, an empty cgroup2 in
    /sys/fs/cgroup/unified. The case starts in the root cgroup, where nothing
    is charged or limited.

What a case may print
    GTEST_SKIP() << "not applicable: <reason>"     is counted as n/a
    @metric <name> <value> [unit]                  on a line of its own, collected

A skip for any other reason is a failure, and so are a disabled case, a case
that never reported and a run without a single executed case. A case which
takes the kernel down fails alone: the cases after it run in a fresh boot.

Exit status: 0 all passed, 1 something failed, 2 something could not be tried
(usage, a required kernel that cannot be fetched, a guest that does not boot).

Needs: qemu-system-x86, busybox-static, kmod, apt, zstd, lz4, systemd, dbus. No root, no KVM.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

from harness import gtest, guest, image, kernels, placement, report, systemd
from harness.campaign import Campaign, Environment, Limits
from harness.guest import Ending, Fleet
from harness.libraries import MissingLibrary

REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_BUILD = REPOSITORY / "build/release"
PLACEMENT = REPOSITORY / "vmtests/placement.txt"
# Where the build puts the guest's programs.
BUILT = {"forestall": "userspace/cli/forestall",
         "forestall-offline": "userspace/cli/forestall-offline",
         "forestall-prekill": "userspace/cli/forestall-prekill",
         "vm_cases": "vmtests/vm_cases"}  # fmt: skip
# What a guest with systemd has of this repository.
OF_SYSTEMD = {
    "usr/share/dbus-1/system.d/forestall-oom1.conf": REPOSITORY
    / "scripts/deploy/forestall-oom1.conf",
    "usr/share/forestall/systemd-oomd.conf": REPOSITORY / "scripts/deploy/systemd-oomd.conf",
}
KEPT_LOGS = 10


class Unusable(Exception):
    """The run cannot start with these arguments; the text has the reason."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    labels = [track.label for track in kernels.TRACKS] + list(kernels.ALIASES)
    add = parser.add_argument
    add("--kernel", action="append", choices=[*labels, "all"], help="default: all; may be repeated")
    add("--cgroup", choices=["v1", "v2", systemd.CGROUP, "all"], default="all",
        help="default: all; --run and --shell use systemd only if it is named")  # fmt: skip
    add("--case", action="append", default=[], metavar="GLOB", help="cases to run; repeatable")
    add("--require", action="append", default=[], choices=labels,
        help="with all kernels: fail unless this one could be fetched")  # fmt: skip
    add("--binaries", type=Path, metavar="DIR", help="build directory (default: build/release)")
    add("--binary", type=Path, action="append", default=[], metavar="PATH",
        help="a program for /forestall/bin; without --binaries only these go in")  # fmt: skip
    add("--file", action="append", default=[], metavar="SRC:DST", help="an extra file or folder")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="for the guest's programs")
    add("--run", metavar="COMMAND", help="run this shell command instead of the cases")
    add("--shell", action="store_true", help="a shell in one guest, on this terminal")
    add("--list", action="store_true", help="print environments and cases, run nothing")
    add("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), metavar="N",
        help="guests at once (default: %(default)s)")  # fmt: skip
    add("--memory", type=int, default=768, metavar="MIB", help="of a guest (default: %(default)s)")
    add("--cpus", type=int, default=2, metavar="N", help="of a guest (default: %(default)s)")
    add("--timeout", type=float, default=300, metavar="S", help="for one case (default: 300)")
    add("--bound", type=float, default=2700, metavar="S", help="for one guest (default: 2700)")
    add("--cache", type=Path, default=default_cache(), metavar="DIR", help="default: %(default)s")
    add("--max-age", type=float, default=14, metavar="DAYS", help="of a cached kernel (14)")
    add("--refresh", action="store_true", help="query the mirror even for fresh kernels")
    add("--logs", type=Path, metavar="DIR", help="default: vm-logs in the build directory")
    add("--keep", action="store_true", help="keep the images and print their place")
    add("--output", choices=["text", "json"], default="text", help="of standard output")
    add("--results", type=Path, metavar="FILE", help="write the results as JSON too")
    return parser.parse_args(arguments)


def default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "forestall/vm"


def chosen_tracks(options: argparse.Namespace) -> list[kernels.Track]:
    asked = {kernels.ALIASES.get(label, label) for label in options.kernel or ["all"]}
    return [track for track in kernels.TRACKS if "all" in asked or track.label in asked]


def required_labels(options: argparse.Namespace) -> set[str]:
    """A kernel named outright is wanted; of `all` only the stable ones are."""
    named = [label for label in options.kernel or [] if label != "all"] + options.require
    stable = [track.label for track in kernels.TRACKS if track.required]
    return {kernels.ALIASES.get(label, label) for label in named + stable}


def matrix(options: argparse.Namespace) -> list[Environment]:
    """The requested environments. An explicitly named cgroup version is always tried."""
    environments = []
    for track in chosen_tracks(options):
        versions = track.cgroups
        if options.cgroup == "all" and (options.run or options.shell):
            versions = tuple(version for version in versions if version != systemd.CGROUP)
        if options.cgroup != "all":
            named = any(label != "all" for label in options.kernel or [])
            versions = (options.cgroup,) if named or options.cgroup in versions else ()
        environments += [Environment(track.label, version) for version in versions]
    return environments


def find_programs(options: argparse.Namespace) -> dict[str, Path]:
    """Name to path of everything that goes into /forestall/bin."""
    programs = {path.name: path for path in options.binary}
    if options.binaries is not None or not options.binary:
        folder = options.binaries or DEFAULT_BUILD
        for name, below in BUILT.items():
            places = [path for path in (folder / below, folder / name) if path.is_file()]
            if places:
                programs.setdefault(name, places[0])
            elif not (options.run or options.shell or name in programs):
                raise Unusable(f"{folder / below} does not exist: build it, or name --binaries")
    for path in programs.values():
        if not path.is_file():
            raise Unusable(f"{path} does not exist")
    if "vm_cases" not in programs and not (options.run or options.shell):
        raise Unusable("there is no program vm_cases among the binaries")
    return programs


def find_payload(options: argparse.Namespace, programs: dict[str, Path]) -> image.Payload:
    files = []
    for text in options.file:
        source, colon, target = text.rpartition(":")
        if not colon:
            raise Unusable(f"--file {text}: expected SRC:DST")
        files.append((Path(source), target))
    return image.Payload(tuple(programs.values()), tuple(files))


def find_variables(options: argparse.Namespace) -> dict[str, str]:
    variables = {}
    for text in options.env:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise Unusable(f"--env {text}: expected NAME=VALUE")
        variables[name] = value
    return variables


def find_cases(options: argparse.Namespace, program: Path) -> list[str]:
    """Runs the program's list option on this machine, so that a lost case is noticed."""
    done = subprocess.run(
        [str(program.resolve()), "--gtest_list_tests"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise Unusable(f"{program} --gtest_list_tests: {done.stderr.strip() or done.returncode}")
    every = gtest.parse_list(done.stdout)
    stale = placement.unmatched(placement_patterns(), every)
    if stale:
        raise Unusable(
            f"{PLACEMENT}: no case matches {', '.join(stale)}: correct or remove these lines"
        )
    names = gtest.select(every, options.case)
    if not names:
        raise Unusable("no case matches")
    return names


def placement_patterns() -> dict[str, str]:
    try:
        return placement.parse(PLACEMENT.read_text())
    except placement.BadList as error:
        raise Unusable(f"{PLACEMENT}: {error}") from error


def fetch_kernels(
    options: argparse.Namespace, environments: list[Environment], printer: report.Printer
) -> None:
    store = kernels.Store(options.cache, options.max_age, options.refresh)
    for track in chosen_tracks(options):
        cells = [cell for cell in environments if cell.label == track.label]
        if not cells:
            continue
        try:
            kernel = store.get(track)
        except kernels.FetchError as error:
            printer.line(f"{track.label:<9}  could not be fetched: {error}")
            for cell in cells:
                cell.unavailable = str(error)
            continue
        note = f" {kernel.note}" if kernel.note else ""
        printer.line(f"{track.label:<9}  {kernel.release} ({kernel.version}){note}")
        for cell in cells:
            cell.kernel = kernel
            cell.notes += [kernel.note] if kernel.note else []


def prepare_logs(options: argparse.Namespace) -> Path:
    """A folder of its own for every run; the last runs are kept."""
    build = options.binaries or DEFAULT_BUILD
    folder = options.logs or (build / "vm-logs" if build.is_dir() else None)
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="vm-logs-"))
    folder.mkdir(parents=True, exist_ok=True)
    older = sorted(path for path in folder.glob("20*-*-*") if path.is_dir())
    for path in older[: -(KEPT_LOGS - 1)]:
        shutil.rmtree(path, ignore_errors=True)
    run = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    run.mkdir()
    return run.resolve()


class Run:
    """One invocation: the options, the guests and what they have in common."""

    def __init__(self, options: argparse.Namespace, scratch: Path, fleet: Fleet) -> None:
        self._options = options
        self._scratch = scratch
        self._fleet = fleet
        self._limits = Limits(options.timeout, options.bound, options.memory, options.cpus)
        text_stream = sys.stderr if options.output == "json" else sys.stdout
        self.printer = report.Printer(text_stream)

    def execute(self) -> int:
        options = self._options
        environments = matrix(options)
        if not environments:
            raise Unusable("no requested kernel has this cgroup version")
        programs = find_programs(options)
        cases = [] if options.run or options.shell else find_cases(options, programs["vm_cases"])
        if options.list:
            for environment, its_cases in self._place(environments, cases):
                self.printer.line(f"{environment.name}: {len(its_cases)} cases")
            for name in cases:
                self.printer.line(f"  {name}")
            return 0
        payload = image.payload(find_payload(options, programs), self._scratch)
        variables = find_variables(options)
        fetch_kernels(options, environments, self.printer)
        logs = prepare_logs(options)
        campaigns = []
        for cell in (e for e in environments if e.kernel is not None):
            parts = (payload,)
            if cell.cgroup == systemd.CGROUP:
                parts += (systemd.archive(self._scratch, OF_SYSTEMD),)
            cell.logs = logs / f"{cell.label}-{cell.cgroup}"
            campaigns.append(
                Campaign(
                    cell, self._fleet, self._limits, parts, self._scratch, variables,
                    self.printer.case,
                )  # fmt: skip
            )
        if options.shell:
            return self._shell(campaigns)
        if options.run:
            return self._command(environments, campaigns)
        self._run_all(campaigns, cases)
        return self._conclude(environments)

    def _place(
        self, environments: list[Environment], cases: list[str]
    ) -> list[tuple[Environment, list[str]]]:
        patterns = placement_patterns()
        if self._options.case:
            patterns = {case: section for case, section in patterns.items() if section == "systemd"}
        return placement.place(environments, cases, patterns)

    def _run_all(self, campaigns: list[Campaign], cases: list[str]) -> None:
        placed = self._place([campaign.environment for campaign in campaigns], cases)
        chosen = [its_cases for _, its_cases in placed]
        boots = [placement.boots(its_cases) for its_cases in chosen]
        # The first boots of all environments have the most cases.
        ordered = [
            (campaign.run_cases, part)
            for round_of_boots in zip_longest(*boots, fillvalue=[])
            for campaign, part in zip(campaigns, round_of_boots, strict=True)
        ]
        self._at_once(ordered)
        repeats = zip(campaigns, chosen, strict=True)
        self._at_once([(campaign.repeat_failed, cases) for campaign, cases in repeats])

    def _at_once(self, calls: list[tuple[Callable[[list[str]], None], list[str]]]) -> None:
        """Calls each function with its cases, as many at a time as there are jobs."""
        with ThreadPoolExecutor(max(1, self._options.jobs)) as pool:
            futures = [pool.submit(function, cases) for function, cases in calls]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                # Leaving the pool waits for its threads, and they for their guests.
                self._fleet.stop()
                raise

    def _shell(self, campaigns: list[Campaign]) -> int:
        if len(campaigns) != 1:
            raise Unusable("--shell needs one environment: name --kernel and --cgroup")
        return campaigns[0].run_shell()

    def _command(self, environments: list[Environment], campaigns: list[Campaign]) -> int:
        """Shows what the command prints as it comes, environment by environment."""
        worst = 2 if any(e.unavailable for e in environments) else 0
        assert self._options.run is not None
        for campaign in campaigns:
            self.printer.line(f"--- {campaign.environment.name}")
            outcome = campaign.run_command(self._options.run, self.printer.line)
            logs = campaign.environment.logs
            if outcome.ending is not Ending.FINISHED:
                detail = f": {outcome.detail}" if outcome.detail else ""
                self.printer.line(f"--- {outcome.ending.value}{detail}; logs: {logs}")
                worst = 2
            else:
                self.printer.line(
                    f"--- {outcome.release}: exit status {outcome.status}, "
                    f"{outcome.seconds:.1f} s, logs: {logs}"
                )
                worst = max(worst, 1 if outcome.status else 0)
        return worst

    def _conclude(self, environments: list[Environment]) -> int:
        summary = report.Summary(environments, required_labels(self._options))
        for line in summary.lines():
            self.printer.line(line)
        text = json.dumps(summary.as_json(), indent=2)
        if self._options.results:
            self._options.results.write_text(text + "\n")
        if self._options.output == "json":
            print(text)
        return summary.exit_status


def interrupted(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, interrupted)
    if shutil.which(guest.QEMU) is None:
        print(f"vmtests: {guest.QEMU} is not installed", file=sys.stderr)
        return 2
    scratch = Path(tempfile.mkdtemp(prefix="vmtests-"))
    fleet = Fleet()
    try:
        return Run(options, scratch, fleet).execute()
    except (Unusable, MissingLibrary, image.ImageError) as error:
        print(f"vmtests: {error}", file=sys.stderr)
        return 2
    except (OSError, subprocess.SubprocessError) as error:
        print(f"vmtests: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vmtests: interrupted", file=sys.stderr)
        return 2
    finally:
        fleet.stop()
        if options.keep:
            print(f"vmtests: images are in {scratch}", file=sys.stderr)
        else:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
