#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of Forestall in a real cluster. run.py starts it, in namespaces of its own."""

from __future__ import annotations

import pathlib
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree

import fixture
from agent_tests import AgentTests
from annotation_tests import AnnotationTests
from clock_tests import ClockTests
from credential_tests import CredentialTests
from dry_run_tests import DryRunTests
from fault_tests import FaultTests
from figures import LEAKERS, print_figures
from fixture import report
from hostile_tests import HostileTests
from measured_fault_tests import MeasuredFaultTests
from move_background_tests import MoveBackgroundTests
from move_fault_tests import MoveFaultTests
from move_placeholder_tests import MovePlaceholderTests
from move_tests import MoveTests
from order_tests import OrderTests
from readme_tests import ReadmeTests
from rebalance_tests import RebalanceTests
from repetition_tests import RepetitionTests
from report_tests import ReportTests
from rights_tests import RightsTests
from scale import print_scale
from soft_tests import SoftTests
from lab import NODE, Lab, LabError

started = time.monotonic()


class ClusterTest(AgentTests, AnnotationTests, ClockTests, CredentialTests, DryRunTests,
                  FaultTests, OrderTests, RepetitionTests, ReportTests, HostileTests,
                  RebalanceTests, MoveTests, MeasuredFaultTests, MoveBackgroundTests,
                  MoveFaultTests, MovePlaceholderTests, RightsTests, ReadmeTests, SoftTests):
    """All tests, in the order of their names."""


class Result(unittest.TextTestResult):
    """Also collects what JUnit's format needs: each test with its time and its failure."""

    def __init__(self, *arguments, **more) -> None:
        super().__init__(*arguments, **more)
        self.suite = ElementTree.Element("testsuite", name="cluster", tests="0")

    def startTest(self, test) -> None:
        super().startTest(test)
        self.begun = time.monotonic()
        self.case = ElementTree.SubElement(self.suite, "testcase",
                                           name=test.id().rsplit(".", 1)[-1])
        self.suite.set("tests", str(int(self.suite.get("tests")) + 1))

    def stopTest(self, test) -> None:
        super().stopTest(test)
        self.case.set("time", f"{time.monotonic() - self.begun:.1f}")

    def _failed(self, error) -> None:
        ElementTree.SubElement(self.case, "failure").text = str(error[1])

    def addFailure(self, test, error) -> None:
        super().addFailure(test, error)
        self._failed(error)

    def addError(self, test, error) -> None:
        super().addError(test, error)
        if isinstance(test, unittest.TestCase):
            self._failed(error)


def save_log(lab: Lab, container: str) -> None:
    """The last tests remove the DaemonSet."""
    try:
        log = lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", container)
    except LabError as error:
        log = str(error)
        report(f"no log of {container}", error)
    (lab.folder / f"{container}.log").write_text(log)


def main() -> int:
    folder, cache, name, archive, junit, runs, by, pods, *tests = sys.argv[1:]
    lab = Lab(pathlib.Path(folder), pathlib.Path(cache), name)
    try:
        lab.start()
        fixture.use(lab, pathlib.Path(archive))
        report(f"cluster with node {NODE} is up", f"{time.monotonic() - started:.1f} s")
        if int(runs) or int(pods):
            if int(runs):
                print_figures(int(runs), by, tests or list(LEAKERS))
            if int(pods):
                print_scale(int(pods))
            return 0
        runner = unittest.TextTestRunner(sys.stdout, verbosity=2, resultclass=Result)
        names = tests or unittest.TestLoader().getTestCaseNames(ClusterTest)
        result = runner.run(unittest.TestSuite(ClusterTest(each) for each in names))
        if junit:
            ElementTree.ElementTree(result.suite).write(junit)
        if not result.wasSuccessful():
            for container in ("agent", "cluster"):
                save_log(lab, container)
        return 0 if result.wasSuccessful() else 1
    except LabError as error:
        for service in lab.services.values():
            print(f"== end of {service.log}\n{service.tail()}")
        print(f"FAILED {error}")
        return 1
    finally:
        lab.stop()


if __name__ == "__main__":
    sys.exit(main())
