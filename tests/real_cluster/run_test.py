# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py without a cluster: what it reports if the suite cannot run or fails."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import host_state
import probe
import run


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.junit = pathlib.Path(folder.name) / "cluster.xml"

    def cases(self) -> dict[str, str]:
        """Name to what it reports; empty: passed."""
        return {each.get("name"): "".join(each.itertext())
                for each in ElementTree.parse(self.junit).iter("testcase")}

    def test_a_suite_without_a_report_fails_with_the_end_of_its_output(self) -> None:
        status, output = run.run_printing([sys.executable, "-c", "print('no etcd'); exit(3)"])
        self.assertEqual((status, output), (3, ["no etcd"]))
        run.write_junit(self.junit, output, [])
        self.assertEqual(self.cases(), {"HostIsAsItWas": "", "ClusterRuns": "no etcd"})

    def test_a_suite_that_ran_no_test_fails(self) -> None:
        run.write_junit(self.junit, [], [])
        self.assertIn("no test", self.cases()["ClusterRuns"])

    def test_a_failed_test_explains_a_failed_suite(self) -> None:
        self.junit.write_text('<testsuite tests="1"><testcase name="a"><failure>why</failure>'
                              "</testcase></testsuite>")
        run.write_junit(self.junit, ["it exited with 1"], ["a link was added"])
        self.assertEqual(self.cases(), {"a": "why", "HostIsAsItWas": "a link was added"})

    def test_a_machine_that_cannot_run_it_is_not_applicable(self) -> None:
        """Without programs, and so on any machine."""
        ran = subprocess.run(
            [sys.executable, str(pathlib.Path(run.__file__)), "--probe", "--junit",
             str(self.junit)], env={"PATH": "/nowhere"}, stdout=subprocess.PIPE, text=True)
        self.assertEqual(ran.returncode, run.CANNOT_RUN)
        self.assertIn("not applicable: the cluster needs ", ran.stdout)
        self.assertIn("not applicable:", self.cases()["cluster"])

    def test_an_attempt_reports_what_failed(self) -> None:
        folder = pathlib.Path(self.junit.parent)
        self.assertEqual(probe.attempt(("--fork",), "true", folder), "")
        self.assertIn("no bridge", probe.attempt(("--fork",), "echo no bridge; false", folder))

    def test_what_other_work_adds_and_removes_is_no_difference(self) -> None:
        before = {"mounts": frozenset({"a"}), "sysctl x": "0"}
        self.assertEqual(host_state.differences(before, {"mounts": frozenset(), "sysctl x": "0"}),
                         [])
        found = host_state.differences(before, {"mounts": frozenset({"b"}), "sysctl x": "1"})
        self.assertEqual(len(found), 2)


if __name__ == "__main__":
    unittest.main()
