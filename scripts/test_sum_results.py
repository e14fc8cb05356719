# SPDX-License-Identifier: Apache-2.0
"""Tests of sum_results.py: what it prints of the results of all stages, and how it ends."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("sum_results.py")


def junit(*cases: str) -> str:
    return f"<testsuite>{''.join(cases)}</testsuite>"


def passed(name: str, seconds: float = 0, output: str = "") -> str:
    return (f'<testcase name="{name}" time="{seconds}" status="run">'
            f"<system-out>{output}</system-out></testcase>")


def failed(name: str, output: str) -> str:
    return (f'<testcase name="{name}" time="1" status="fail"><failure/>'
            f"<system-out>{output}</system-out></testcase>")


def suite_output(*cases: str, cases_announced: int = 0) -> str:
    """What GoogleTest prints of the suite A, whose cases are B, C, ..."""
    announced = cases_announced or len(cases)
    lines = [f"[==========] Running {announced} tests from 1 test suite."]
    for name, case in zip("BCDEF", cases, strict=False):
        lines += [f"[ RUN      ] A.{name}", case]
    return "\n".join(lines) + "\n"


def vm_case(name: str, verdict: str, output: list[str], first_try: dict | None = None) -> dict:
    return {"name": name, "verdict": verdict, "seconds": 3.5, "reason": None, "output": output,
            "first_try": first_try}


class SumResultsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def sum_up(self, *arguments: str) -> tuple[int, list[str]]:
        done = subprocess.run([sys.executable, str(SCRIPT), *arguments, str(self.folder)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_last_line_is_the_sum(self) -> None:
        (self.folder / "host.xml").write_text(junit(passed("A.B"), failed("A.C", "why")))
        (self.folder / "asan.xml").write_text(junit(passed("A.B")))
        status, lines = self.sum_up()
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed"))
        self.assertIn("FAILED host: A.C", lines)
        self.assertIn("    why", lines)

    def test_repeated_test_has_both_outputs(self) -> None:
        (self.folder / "host.xml").write_text(junit(failed("A.B", "too late")))
        (self.folder / "host.again.xml").write_text(junit(passed("A.B", output="in time")))
        status, lines = self.sum_up()
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed"))
        at = lines.index("FAILED, then passed host: A.B")
        self.assertEqual(lines[at + 1:at + 4], ["    too late", "  repeated:", "    in time"])

    def test_a_suite_counts_as_its_cases(self) -> None:
        (self.folder / "host.xml").write_text(junit(failed("A", suite_output(
            "[       OK ] A.B (1500 ms)", "why\n[  FAILED  ] A.C (2 ms)",
            "a.cc:1: Skipped\nnot applicable: no swap\n\n[  SKIPPED ] A.D (0 ms)",
            "a.cc:2: Skipped\nlater\n\n[  SKIPPED ] A.E (0 ms)"))))
        status, lines = self.sum_up("--failed-stages", "host")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 2 failed"))
        self.assertIn("host         1 passed     2 failed     1 not applicable here", lines)
        self.assertEqual(lines[lines.index("FAILED host: A.C") + 1], "    why")
        self.assertEqual(lines[lines.index("FAILED host: A.E") + 1], "    skipped: later")
        self.assertIn("     1.5 s  host: A.B", lines)

    def test_a_suite_that_ends_too_early_has_a_failed_case_and_those_that_did_not_run(self) -> None:
        output = suite_output("[       OK ] A.B (1 ms)", "AddressSanitizer: overflow",
                              cases_announced=3)
        (self.folder / "asan.xml").write_text(junit(failed("A", output)))
        status, lines = self.sum_up()
        self.assertEqual((status, lines[-1]), (1, "1 passed, 2 failed"))
        self.assertIn("    AddressSanitizer: overflow", lines)
        self.assertIn("    1 cases did not run", lines)
        again = suite_output(*(f"[       OK ] A.{case} (1 ms)" for case in "BCD"))
        (self.folder / "asan.again.xml").write_text(junit(passed("A", output=again)))
        status, lines = self.sum_up()
        self.assertEqual(lines[-1], "2 passed, 0 failed")
        self.assertIn("FAILED, then passed asan: A.C", lines)
        self.assertIn("FAILED, then passed asan: A", lines)

    def test_a_suite_that_fails_after_its_last_case_has_failed(self) -> None:
        output = suite_output("[       OK ] A.B (1 ms)") + "LeakSanitizer: detected memory leaks"
        (self.folder / "asan.xml").write_text(junit(failed("A", output)))
        _, lines = self.sum_up()
        self.assertEqual(lines[-1], "1 passed, 1 failed")
        self.assertIn("FAILED asan: A", lines)

    def test_a_case_that_fails_only_in_the_repetition_has_failed(self) -> None:
        (self.folder / "host.xml").write_text(junit(failed("A", suite_output(
            "[       OK ] A.B (1 ms)", "[  FAILED  ] A.C (1 ms)"))))
        (self.folder / "host.again.xml").write_text(junit(failed("A", suite_output(
            "[  FAILED  ] A.B (1 ms)", "[       OK ] A.C (1 ms)"))))
        _, lines = self.sum_up()
        self.assertEqual(lines[-1], "1 passed, 1 failed")
        self.assertIn("FAILED host: A.B", lines)
        self.assertIn("FAILED, then passed host: A.C", lines)

    def test_a_script_that_runs_suites_counts_once(self) -> None:
        output = suite_output("[       OK ] A.B (1 ms)", "[       OK ] A.C (1 ms)")
        (self.folder / "host.xml").write_text(junit(passed("sandbox", output=output)))
        _, lines = self.sum_up()
        self.assertEqual(lines[-1], "1 passed, 0 failed")

    def test_repeated_vm_case_has_both_outputs(self) -> None:
        first = vm_case("Node.Leak", "FAIL", ["no kill"])
        guest = {"kernel": "6.1", "cgroup": "v2", "unavailable": None, "fault": None,
                 "cases": [vm_case("Node.Leak", "PASS", ["killed"], first)]}
        (self.folder / "vm.json").write_text(json.dumps(
            {"environments": [guest], "passed": 1, "failed": 0, "not_applicable": 0}))
        status, lines = self.sum_up()
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed"))
        at = lines.index("FAILED, then passed vm: 6.1 v2 Node.Leak")
        self.assertEqual([line.strip() for line in lines[at + 1:at + 6]],
                         ["", "no kill", "repeated:", "", "killed"])
        self.assertIn("     3.5 s  vm: 6.1 v2 Node.Leak", lines)

    def test_slowest_come_first_and_no_more_than_twenty(self) -> None:
        (self.folder / "host.xml").write_text(
            junit(*(passed(f"A.T{number}", number) for number in range(30))))
        _, lines = self.sum_up()
        self.assertEqual(lines[0], "slowest 20 of 30 tests:")
        self.assertEqual(lines[1], "    29.0 s  host: A.T29")
        self.assertEqual(lines[20], "    10.0 s  host: A.T10")
        self.assertFalse(any("A.T9" in line for line in lines))

    def test_a_failed_stage_without_a_failed_test_counts(self) -> None:
        (self.folder / "host.xml").write_text(junit(passed("A.B")))
        status, lines = self.sum_up("--failed-stages", "asan")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))

    def test_a_failed_stage_without_a_failed_test_has_the_end_of_its_output(self) -> None:
        (self.folder / "host.xml").write_text(junit(passed("A.B")))
        (self.folder / "host.log").write_text("compiling\nerror: no memory\n")
        (self.folder / "asan.xml").write_text(junit(failed("A.C", "why")))
        (self.folder / "asan.log").write_text("too long to be printed twice\n")
        _, lines = self.sum_up("--failed-stages", "host asan")
        at = lines.index("FAILED host, the end of its output:")
        self.assertEqual(lines[at + 1:at + 3], ["    compiling", "    error: no memory"])
        self.assertNotIn("    too long to be printed twice", lines)


if __name__ == "__main__":
    unittest.main()
