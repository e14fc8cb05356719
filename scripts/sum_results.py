#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the results of the stages of test.sh and prints the closing line.

Reads every JUnit file (*.xml) and the VM results (vm.json) of a directory. A ctest test that is a
suite of GoogleTest counts as its cases, which its output lists. A stage that failed
without a failed test (a build error, a crash) counts as one failure, so that the closing line
cannot report 0 failed after a broken stage, and the end of its output (STAGE.log) is printed.

Prints the slowest tests, and the end of each failed test's output again, because of a long output
only the last lines are kept and read. A test that ran twice is printed with both outputs."""

import argparse
import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import NamedTuple

# Printed lines of one failure, from its end.
OUTPUT_LINES = 25
SLOWEST_TESTS = 20
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "vmtests"))
from harness import gtest  # noqa: E402

VERDICTS = {gtest.Verdict.PASS: "passed", gtest.Verdict.FAIL: "failed",
            gtest.Verdict.NOT_APPLICABLE: "not_applicable"}
ANNOUNCED = re.compile(r"^\[==========\] Running (\d+) tests? from ", re.MULTILINE)


class Count(NamedTuple):
    passed: int
    failed: int
    not_applicable: int


class Failure(NamedTuple):
    name: str
    output: list[str]
    # Of the repetition; None if it ran once.
    output_again: list[str] | None = None
    # It passed when repeated: it is printed and does not count as failed.
    passed_again: bool = False


class Stage(NamedTuple):
    count: Count
    failures: list[Failure]
    # Name to seconds, of the first run.
    durations: dict[str, float]


def judge(case: ElementTree.Element) -> str:
    """A skip counts as such only if it names what the environment lacks and where the test runs
    instead; any other reason is a failure."""
    if case.find("skipped") is not None:
        said = "".join(case.itertext())
        return "not_applicable" if "not applicable:" in said else "failed"
    bad = case.find("failure") is not None or case.find("error") is not None
    return "failed" if bad or case.get("status") in ("fail", "notrun", "disabled") else "passed"


class Case(NamedTuple):
    name: str
    verdict: str  # a field of Count; empty: a suite that counts as its cases
    seconds: float
    output: list[str]


def cases_of(test: ElementTree.Element) -> Iterator[Case]:
    """A ctest test, or the cases of a suite. A suite that failed for another reason than a failed
    case, such as a crash before its last case, has failed itself."""
    name, verdict, seconds = test.get("name", "?"), judge(test), float(test.get("time") or 0)
    text = "".join(test.itertext()).strip()
    announced = ANNOUNCED.search(text)
    # A script may run several suites, in places of its own: it counts as one test.
    if announced is None or f"[ RUN      ] {name}." not in text:
        yield Case(name, verdict, seconds, text.splitlines())
        return
    reader = gtest.Reader()
    for line in text.splitlines():
        reader.broadcast(line)
    reader.abandon("its end was not printed", 0)
    for case in reader.ended:
        output = [case.reason, *case.lines] if case.reason else case.lines
        yield Case(case.name, VERDICTS[case.verdict], case.seconds, output)
    missing = int(announced[1]) - len(reader.ended)
    if missing > 0:
        yield Case(name, "failed", seconds, [*text.splitlines(), f"{missing} cases did not run"])
    elif verdict == "failed" and all(VERDICTS[c.verdict] != "failed" for c in reader.ended):
        yield Case(name, "failed", seconds, text.splitlines())
    else:
        yield Case(name, "", seconds, [])


def read_cases(path: pathlib.Path) -> Iterator[Case]:
    for test in ElementTree.parse(path).iter("testcase"):
        yield from cases_of(test)


def read_junit(path: pathlib.Path) -> Stage:
    tried_again = path.with_suffix(".again.xml")
    again = {case.name: case for case in read_cases(tried_again)} if tried_again.exists() else {}
    counted: collections.Counter[str] = collections.Counter()
    failures = []
    durations = {}
    for case in read_cases(path):
        repeated = again.get(case.name)
        final = repeated.verdict if repeated else case.verdict
        counted[final] += 1
        if case.verdict:
            durations[case.name] = case.seconds
        if "failed" in (case.verdict, final):
            failures.append(Failure(case.name, case.output, repeated.output if repeated else None,
                                    final != "failed"))
    return Stage(Count(*(counted[word] for word in Count._fields)), failures, durations)


def vm_failures(outcome: dict) -> Iterator[Failure]:
    for guest in outcome["environments"]:
        name = f"{guest['kernel']} {guest['cgroup']}"
        if guest["unavailable"] or guest["fault"]:
            yield Failure(name, [guest["unavailable"] or guest["fault"]])
        for case in guest["cases"]:
            first = case["first_try"] or case
            if first["verdict"] == "FAIL":
                again = vm_output(case) if case["first_try"] else None
                yield Failure(f"{name} {case['name']}", vm_output(first), again,
                              case["verdict"] == "PASS")


def vm_output(case: dict) -> list[str]:
    return [case["reason"] or "", *case["output"]]


def read_vm(path: pathlib.Path) -> Stage:
    outcome = json.loads(path.read_text())
    count = Count(outcome["passed"], outcome["failed"], outcome["not_applicable"])
    durations = {
        f"{guest['kernel']} {guest['cgroup']} {case['name']}":
            (case["first_try"] or case)["seconds"]
        for guest in outcome["environments"] for case in guest["cases"]
    }
    return Stage(count, list(vm_failures(outcome)), durations)


def print_slowest(stages: dict[str, Stage]) -> None:
    every = [(seconds, stage, name) for stage, read in stages.items()
             for name, seconds in read.durations.items()]
    print(f"slowest {min(SLOWEST_TESTS, len(every))} of {len(every)} tests:")
    for seconds, stage, name in sorted(every, reverse=True)[:SLOWEST_TESTS]:
        print(f"{seconds:8.1f} s  {stage}: {name}")


def print_failure(stage: str, failure: Failure) -> None:
    word = "FAILED, then passed" if failure.passed_again else "FAILED"
    print(f"{word} {stage}: {failure.name}")
    print_end(failure.output)
    if failure.output_again is not None:
        print("  repeated:")
        print_end(failure.output_again)


def print_end(output: list[str]) -> None:
    print("\n".join("    " + line[:300] for line in output[-OUTPUT_LINES:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failed-stages", default="")
    parser.add_argument("results", type=pathlib.Path)
    options = parser.parse_args()

    failed_stages = options.failed_stages.split()
    stages = {
        path.stem: read_vm(path) if path.suffix == ".json" else read_junit(path)
        for path in sorted(options.results.iterdir())
        if path.suffix in (".xml", ".json") and not path.name.endswith(".again.xml")
    }
    print_slowest(stages)
    for name, stage in stages.items():
        print(f"{name:8} {stage.count.passed:5} passed {stage.count.failed:5} failed "
              f"{stage.count.not_applicable:5} not applicable here")
    passed = sum(stage.count.passed for stage in stages.values())
    failed = sum(stage.count.failed for stage in stages.values())
    for name, stage in stages.items():
        for failure in stage.failures:
            print_failure(name, failure)
    for name in failed_stages:
        log = options.results / f"{name}.log"
        # Where no failed test explains it.
        if log.exists() and not (name in stages and stages[name].count.failed):
            print(f"FAILED {name}, the end of its output:")
            print_end(log.read_text(errors="replace").splitlines())
    if failed_stages:
        print("failed stages: " + " ".join(failed_stages))
        failed = max(failed, len(failed_stages))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
