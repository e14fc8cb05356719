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


def count_junit(path: pathlib.Path) -> tuple[int, int]:
    passed = failed = 0
    for case in ElementTree.parse(path).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        bad = bad or case.get("status") in ("fail", "notrun", "disabled")
        failed += bad
        passed += not bad
    return passed, failed


def count_vm(path: pathlib.Path) -> tuple[int, int]:
    outcome = json.loads(path.read_text())
    return outcome["passed"], outcome["failed"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failed-stages", default="")
    parser.add_argument("results", type=pathlib.Path)
    options = parser.parse_args()

    failed_stages = options.failed_stages.split()
    passed = failed = 0
    for path in sorted(options.results.iterdir()):
        counted = count_vm(path) if path.suffix == ".json" else count_junit(path)
        print(f"{path.stem:8} {counted[0]:5} passed {counted[1]:5} failed")
        passed += counted[0]
        failed += counted[1]
    if failed_stages:
        print("failed stages: " + " ".join(failed_stages))
        failed = max(failed, len(failed_stages))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
