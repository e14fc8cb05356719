#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a cluster of one node on this machine, tests Forestall in it, and leaves the host as it
was: sysctls, mounts, cgroups, processes, network links and folders are compared at the end.

Kubernetes' programs are those of build_kubernetes.sh. Needs root, cgroup v1 or a hybrid layout, and
the packages of `scripts/install_packages.sh cluster`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import host_state
from lab import LabCgroups

HERE = pathlib.Path(__file__).resolve().parent
PR_SET_CHILD_SUBREAPER = 36


def default_cache() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("FORESTALL_CLUSTER_CACHE")
                        or pathlib.Path(home) / "forestall/cluster")


def missing() -> str:
    if os.geteuid() != 0:
        return "root"
    if not pathlib.Path("/sys/fs/cgroup/memory/cgroup.procs").exists():
        return "the memory controller of cgroup v1 (Kubernetes 1.20's kubelet)"
    for program in ("kubectl", "containerd", "runc", "ctr", "gcc", "openssl", "ip"):
        if shutil.which(program) is None:
            return f"{program} (scripts/install_packages.sh cluster; kubectl 1.21 or later)"
    return ""


def reap() -> None:
    """Waits for all children; all of them have been killed."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def run_suite(options: argparse.Namespace, name: str) -> list[str]:
    """Problems of the suite, and of removing what it used."""
    cgroups = LabCgroups(name)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
    problems = []
    cgroups.create()
    try:
        command = ["unshare", "--mount", "--net", "--propagation", "private", sys.executable,
                   str(HERE / "suite.py"), str(folder), str(options.cache), name,
                   str(options.image), str(options.junit or ""), *options.tests]
        ran = subprocess.run(command)
        if ran.returncode != 0:
            problems.append(f"the suite exited with {ran.returncode}")
            print(f"logs of the services: {folder}/*.log")
    finally:
        cgroups.end_processes()
        reap()
        cgroups.remove()
    if not problems:
        shutil.rmtree(folder)
    return problems


def add_to_junit(path: pathlib.Path, problems: list[str]) -> None:
    tree = ElementTree.parse(path)
    suite = tree.getroot()
    case = ElementTree.SubElement(suite, "testcase", name="HostIsAsItWas")
    suite.set("tests", str(int(suite.get("tests", "0")) + 1))
    if problems:
        ElementTree.SubElement(case, "failure").text = "\n".join(problems)
    tree.write(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--image", type=pathlib.Path, required=True, help="of scripts/image.sh")
    parser.add_argument("--cache", type=pathlib.Path, default=default_cache())
    parser.add_argument("--junit", type=pathlib.Path, help="write the result as JUnit XML")
    parser.add_argument("tests", nargs="*", help="names of tests; default: all")
    options = parser.parse_args()
    if lacks := missing():
        reason = f"not applicable: needs {lacks}"
        print(reason)
        if options.junit:
            suite = ElementTree.Element("testsuite", name="cluster", tests="1")
            case = ElementTree.SubElement(suite, "testcase", name="cluster")
            ElementTree.SubElement(case, "skipped", message=reason).text = reason
            ElementTree.ElementTree(suite).write(options.junit)
        return 0
    name = f"forestall-cluster-{os.getpid()}"
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
    if options.junit and options.junit.exists():
        add_to_junit(options.junit, changed)
    return 1 if problems or changed else 0


if __name__ == "__main__":
    sys.exit(main())
