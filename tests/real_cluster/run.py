#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a cluster of one node on this machine, tests Forestall in it, and leaves the host as it
was: sysctls, mounts, cgroups, processes, network links and folders are compared at the end.

Kubernetes' programs are those of build_kubernetes.sh. Needs root, cgroup v1 or a hybrid layout, and
the packages of `scripts/install_packages.sh cluster`.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ElementTree

import host_state
import probe
from lab import LabCgroups, LabError

HERE = pathlib.Path(__file__).resolve().parent
PR_SET_CHILD_SUBREAPER = 36
# Exit status of --probe.
CANNOT_RUN = 77
# It takes 25 minutes beside compilers on the same two CPUs.
SUITE_SECONDS_MAX = 40 * 60
# Of each leak of --runs.
RUN_SECONDS_MAX = 180
# Of the suite's output, in the report of a suite that ended without one.
OUTPUT_LINES = 40


def default_cache() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("FORESTALL_CLUSTER_CACHE")
                        or pathlib.Path(home) / "forestall/cluster")


def reap() -> None:
    """Waits for all children; all of them have been killed."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def run_printing(command: list[str],
                 seconds_max: int = SUITE_SECONDS_MAX) -> tuple[int, list[str]]:
    """Prints the command's output as it comes; its status, and the end of its output."""
    end: collections.deque[str] = collections.deque(maxlen=OUTPUT_LINES)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    timer = threading.Timer(seconds_max, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            end.append(line.rstrip("\n"))
        process.stdout.close()
        status = process.wait()
        if not timer.is_alive():
            end.append(f"no end within {seconds_max} s")
        return status, list(end)
    finally:
        timer.cancel()


def remove(cgroups: LabCgroups) -> list[str]:
    try:
        cgroups.end_processes()
        reap()
        cgroups.remove()
    except (OSError, LabError) as error:
        return [f"the cluster was not removed: {error}"]
    return []


def run_suite(options: argparse.Namespace, name: str) -> list[str]:
    """Problems of the suite, and of removing what it used."""
    cgroups = LabCgroups(name)
    # Its name has the mark of host_state.py.
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
    problems = []
    try:
        cgroups.create()
        command = ["unshare", "--mount", "--net", "--propagation", "private", sys.executable,
                   str(HERE / "suite.py"), str(folder), str(options.cache), name,
                   str(options.image), str(options.junit or ""), str(options.runs),
                   options.by, str(options.pods), *options.tests]
        seconds_max = SUITE_SECONDS_MAX + 4 * options.runs * RUN_SECONDS_MAX
        status, output = run_printing(command, seconds_max)
        if status != 0:
            problems.append(f"the suite exited with {status}; the end of its output:")
            problems += output
            print(f"logs of the services: {folder}/*.log")
    except OSError as error:
        problems.append(f"the suite did not run: {error}")
    finally:
        problems += remove(cgroups)
    if not problems:
        shutil.rmtree(folder)
    return problems


def write_junit(path: pathlib.Path, problems: list[str], changed: list[str]) -> None:
    """Adds to the suite's report, or makes one with the reason why there is none."""
    suite = ElementTree.parse(path).getroot() if path.exists() else \
        ElementTree.Element("testsuite", name="cluster", tests="0")
    cases = [("HostIsAsItWas", changed)]
    if suite.find(".//testcase") is None or (problems and suite.find(".//failure") is None):
        cases.append(("ClusterRuns", problems or ["the suite ran no test"]))
    for name, failure in cases:
        case = ElementTree.SubElement(suite, "testcase", name=name)
        suite.set("tests", str(int(suite.get("tests", "0")) + 1))
        if failure:
            ElementTree.SubElement(case, "failure").text = "\n".join(failure)
    ElementTree.ElementTree(suite).write(path)


def write_not_applicable(path: pathlib.Path, reason: str) -> None:
    suite = ElementTree.Element("testsuite", name="cluster", tests="1")
    case = ElementTree.SubElement(suite, "testcase", name="cluster")
    ElementTree.SubElement(case, "skipped", message=reason).text = reason
    ElementTree.ElementTree(suite).write(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--image", type=pathlib.Path, help="of scripts/image.sh")
    parser.add_argument("--probe", action="store_true",
                        help=f"only find out whether this machine can run it: {CANNOT_RUN} if not")
    parser.add_argument("--cache", type=pathlib.Path, default=default_cache())
    parser.add_argument("--junit", type=pathlib.Path, help="write the result as JUnit XML")
    parser.add_argument("--runs", type=int, default=0, metavar="N",
                        help="no tests: N leaks of each kind, with the agent and with the kubelet "
                             "alone, as a table")
    parser.add_argument("--by", choices=("both", "forestall", "kubelet"), default="both",
                        help="of --runs, only the leaks with this one")
    parser.add_argument("--pods", type=int, default=0, metavar="N",
                        help="no tests: memory and CPU time on a node with N pods")
    parser.add_argument("tests", nargs="*", help="names of tests, or with --runs of kinds of leaks "
                        "(fast, slow, creeping); default: all")
    options = parser.parse_args()
    if not options.image and not options.probe:
        parser.error("--image or --probe is required")
    name = f"forestall-cluster-{os.getpid()}"
    if options.junit:
        options.junit.unlink(missing_ok=True)
    if lacks := probe.missing(name):
        reason = f"not applicable: the cluster needs {lacks}"
        print(reason)
        if options.junit:
            write_not_applicable(options.junit, reason)
        return CANNOT_RUN if options.probe else 0
    if options.probe:
        return 0
    # What the lab leaves running becomes this process's, and can be reaped here.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)
    # As by an exception: the cluster is removed, whatever ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = host_state.capture(name)
    problems = run_suite(options, name)
    changed = host_state.differences(before, host_state.capture(name))
    for each in changed:
        print(f"FAILED the host is not as it was: {each}")
    print(f"host as it was: {'no' if changed else 'yes'} "
          f"({len(before)} kinds of state compared)")
    if options.junit:
        write_junit(options.junit, problems, changed)
    return 1 if problems or changed else 0


if __name__ == "__main__":
    sys.exit(main())
