#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `forestall rebalance simulate --trace` in a real browser: it draws lines and what is
uncertain, its labels are apart, it fits, it reports no errors and requests nothing.

simulation_browser_test.py --forestall PATH [--shots DIR]"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import recorded_states  # noqa: E402
from browser import Browser, Page  # noqa: E402

OPTIONS: argparse.Namespace

# Texts of one plot that cover each other, or that its edge cuts off.
OVERLAPS = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll('.plots svg')) {
    const boxes = [...svg.querySelectorAll('text')].map((text) =>
      [text.textContent, text.getBoundingClientRect()]);
    const edge = svg.getBoundingClientRect();
    boxes.forEach(([name, box]) => {
      if (box.left < edge.left || box.right > edge.right || box.bottom > edge.bottom)
        found.push([name, 'edge']);
    });
    boxes.forEach(([name, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
        found.push([name, other]);
    }));
  }
  return found;
})()"""


class SimulationPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = Browser()
        cls.directory = tempfile.TemporaryDirectory(prefix="forestall-simulation-")
        directory = pathlib.Path(cls.directory.name)
        recorded_states.write(directory)
        cls.file = directory / "page.html"
        policies = [word for name in recorded_states.POLICIES
                    for word in ("--policy", str(directory / name))]
        command = [OPTIONS.forestall, "rebalance", "simulate", "--trace",
                   str(directory / "trace"), *policies, "--page", str(cls.file), "-o", "json"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300)
        cls.runs = json.loads(done.stdout)["runs"]
        if OPTIONS.shots:
            os.makedirs(OPTIONS.shots, exist_ok=True)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.close()
        cls.directory.cleanup()

    def opened(self, name: str, **how) -> Page:
        page = Page(self.browser, **how)
        self.addCleanup(page.close)
        page.call("Page.navigate", url=self.file.as_uri())
        page.wait_for("document.readyState === 'complete' && document.querySelector('.plots')")
        if OPTIONS.shots:
            page.screenshot(os.path.join(OPTIONS.shots, f"simulation-{name}.png"))
        return page

    def assert_readable(self, page: Page) -> None:
        wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        self.assertLessEqual(wide, room, "something sticks out on the right")
        self.assertEqual(page.evaluate(OVERLAPS), [])
        self.assertEqual(page.complaints(), [])
        self.assertEqual(page.requests(), [self.file.as_uri()])

    def test_wide(self) -> None:
        page = self.opened("wide")
        self.assert_readable(page)
        headings = page.evaluate("[...document.querySelectorAll('h2')].map((h) => h.textContent)")
        self.assertTrue(any("every run measures" in each for each in headings), headings)
        lines = page.evaluate("document.querySelectorAll('.plots polyline').length")
        self.assertGreaterEqual(lines, 4 * len(self.runs))

    def test_dark_on_a_phone(self) -> None:
        self.assert_readable(self.opened("phone-dark", dark=True, phone=True))

    def test_the_uncertain_part_is_drawn_and_counted(self) -> None:
        none, _, life_time = self.runs
        # Node 6 in all runs; in that of life-time also nodes of a pod without a sample.
        self.assertGreater(none["unknownNodeMinutes"], 0)
        self.assertGreater(life_time["unknownNodeMinutes"], none["unknownNodeMinutes"])
        self.assertEqual(len({run["comparedNodeMinutes"] for run in self.runs}), 1)
        page = self.opened("again")
        self.assertEqual(page.evaluate("document.querySelectorAll('.band').length"),
                         len(self.runs))
        table = page.evaluate("document.querySelector('table').innerText")
        self.assertRegex(table, r"none\s+[\d.]+ to [\d.]+\s+[\d.]+ of [\d.]+")


def main() -> None:
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--forestall", required=True)
    parser.add_argument("--shots")
    OPTIONS = parser.parse_args()
    loaded = unittest.defaultTestLoader.loadTestsFromTestCase(SimulationPageTest)
    done = unittest.TextTestRunner(verbosity=2).run(loaded)
    sys.exit(0 if done.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
