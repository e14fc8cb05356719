#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the results of the stages of test.sh and prints the closing line.

Reads every JUnit file (*.xml) and the VM results (vm.json) of a directory. A stage that failed
without a failed test (a build error, a crash) counts as one failure, so that the closing line
cannot report 0 failed after a broken stage.

Prints the end of each failed test's output again, because of a long output only the last lines
are kept and read."""

import argparse
import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import NamedTuple

# Printed lines of one failure, from its end.
OUTPUT_LINES = 25


class Count(NamedTuple):
    passed: int
    failed: int
    not_applicable: int


class Failure(NamedTuple):
    name: str
    output: list[str]
    # It passed when repeated: it is printed and does not count as failed.
    passed_again: bool = False


def judge(case: ElementTree.Element) -> str:
    """A skip counts as such only if it names what the environment lacks and where the test runs
    instead; any other reason is a failure."""
    if case.find("skipped") is not None:
        said = "".join(case.itertext())
        return "not_applicable" if "not applicable:" in said else "failed"
    bad = case.find("failure") is not None or case.find("error") is not None
    return "failed" if bad or case.get("status") in ("fail", "notrun", "disabled") else "passed"


def read_cases(path: pathlib.Path) -> Iterator[tuple[str, str, ElementTree.Element]]:
    for case in ElementTree.parse(path).iter("testcase"):
        yield case.get("name", "?"), judge(case), case


def read_junit(path: pathlib.Path) -> tuple[Count, list[Failure]]:
    tried_again = path.with_suffix(".again.xml")
    again = {name: verdict for name, verdict, _ in read_cases(tried_again)} \
        if tried_again.exists() else {}
    counted: collections.Counter[str] = collections.Counter()
    failures = []
    for name, verdict, case in read_cases(path):
        counted[again.get(name, verdict)] += 1
        if verdict == "failed":
            output = "".join(case.itertext()).strip().splitlines()
            failures.append(Failure(name, output, again.get(name) == "passed"))
    return Count(*(counted[word] for word in Count._fields)), failures


def vm_failures(outcome: dict) -> Iterator[Failure]:
    for guest in outcome["environments"]:
        name = f"{guest['kernel']} {guest['cgroup']}"
        if guest["unavailable"] or guest["fault"]:
            yield Failure(name, [guest["unavailable"] or guest["fault"]])
        for case in guest["cases"]:
            failed = case["first_try"] or case
            if failed["verdict"] == "FAIL":
                output = [failed["reason"] or "", *failed["output"]]
                yield Failure(f"{name} {case['name']}", output, case["verdict"] == "PASS")


def read_vm(path: pathlib.Path) -> tuple[Count, list[Failure]]:
    outcome = json.loads(path.read_text())
    count = Count(outcome["passed"], outcome["failed"], outcome["not_applicable"])
    return count, list(vm_failures(outcome))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failed-stages", default="")
    parser.add_argument("results", type=pathlib.Path)
    options = parser.parse_args()

    failed_stages = options.failed_stages.split()
    passed = failed = 0
    failures: list[tuple[str, Failure]] = []
    for path in sorted(options.results.iterdir()):
        if path.name.endswith(".again.xml"):
            continue
        counted, failed_here = read_vm(path) if path.suffix == ".json" else read_junit(path)
        failures += [(path.stem, failure) for failure in failed_here]
        print(f"{path.stem:8} {counted.passed:5} passed {counted.failed:5} failed "
              f"{counted.not_applicable:5} not applicable here")
        passed += counted.passed
        failed += counted.failed
    for stage, failure in failures:
        word = "FAILED, then passed" if failure.passed_again else "FAILED"
        print(f"{word} {stage}: {failure.name}")
        print("\n".join("    " + line[:300] for line in failure.output[-OUTPUT_LINES:]))
    if failed_stages:
        print("failed stages: " + " ".join(failed_stages))
        failed = max(failed, len(failed_stages))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
