#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what the stages of test.sh left behind and prints the closing line.

Reads every JUnit file (*.xml) and the VM results (vm.json) of a directory. A stage that failed
without leaving a failed test (it did not build, it crashed) counts as one failure of its own, so
that the closing line can never say 0 failed after a broken stage.
"""

import argparse
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple


class Count(NamedTuple):
    passed: int
    failed: int
    not_applicable: int


def judge(case: ElementTree.Element) -> str:
    """A skip counts as such only if it says what the environment lacks and where it runs instead;
    any other reason not to have run is a failure."""
    if case.find("skipped") is not None:
        said = "".join(case.itertext())
        return "not_applicable" if "not applicable:" in said else "failed"
    bad = case.find("failure") is not None or case.find("error") is not None
    return "failed" if bad or case.get("status") in ("fail", "notrun", "disabled") else "passed"


def count_junit(path: pathlib.Path) -> Count:
    verdicts = [judge(case) for case in ElementTree.parse(path).iter("testcase")]
    return Count(*(verdicts.count(word) for word in Count._fields))


def count_vm(path: pathlib.Path) -> Count:
    outcome = json.loads(path.read_text())
    return Count(outcome["passed"], outcome["failed"], outcome["not_applicable"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failed-stages", default="")
    parser.add_argument("results", type=pathlib.Path)
    options = parser.parse_args()

    failed_stages = options.failed_stages.split()
    passed = failed = 0
    for path in sorted(options.results.iterdir()):
        counted = count_vm(path) if path.suffix == ".json" else count_junit(path)
        print(f"{path.stem:8} {counted.passed:5} passed {counted.failed:5} failed "
              f"{counted.not_applicable:5} not applicable here")
        passed += counted.passed
        failed += counted.failed
    if failed_stages:
        print("failed stages: " + " ".join(failed_stages))
        failed = max(failed, len(failed_stages))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
