# SPDX-License-Identifier: Apache-2.0
"""Tests of the bench's pure parts; no guest is booted.

What the bench reports about Forestall and its peers is only as good as how it
reads its logs, so a log is written by hand here and its figures are known.
"""

from __future__ import annotations

import gzip
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from bench import catalogue, figures, page, runlog, summary, table
from bench.catalogue import CatalogueError, Line, Pod
from bench.debian import make_disk
from bench.figures import Figures, Kill
from bench.payload import manifest, request_table
from bench.runlog import LogError, Sample
from bench.runs import Bench, Job, Result
from bench.session import Session
from bench.summary import Spread
from bench.targets import targets

GO = 10_000_000


def sample(at_ms: float, available_mib: float, free_mib: float = 50, kubelet: float = 500,
           kills: int = 0, full: int = 0, swap: float = 0,
           left: float = -1 / 1024) -> str:  # fmt: skip
    kib = [round(each * 1024) for each in (free_mib, available_mib, swap, kubelet)]
    numbers = [GO + round(at_ms * 1000), *kib, kills, full, round(left * 1024)]
    return " ".join(map(str, numbers))


def trace(at_ms: float, task: str, rest: str) -> str:
    return f"  {task} [001] d..2. {(GO / 1000 + at_ms) / 1000:.6f}: {rest}"


def kill(at_ms: float, by: str, victim: str, pid: int, code: int = 0, number: int = 9) -> str:
    rest = f"signal_generate: sig={number} errno=0 code={code} comm={victim} pid={pid} grp=1 res=0"
    return trace(at_ms, by, rest)


def log_text(samples: list[str], events: list[str], kernel: list[str] | None = None,
             facts: str = "") -> str:  # fmt: skip
    return "\n".join(
        [
            "== facts", "total_kib 2000000", f"go {GO}", f"end {GO + 1_000_000}", "alive g-db",
            *facts.splitlines(), "== samples", *samples, "== delays",
            f"  {GO + 300_000}  {25_000}", f"  {GO - 100}  {90_000}", "== trace", *events,
            "== kernel", *(kernel or []), "== end",
        ]
    )  # fmt: skip


FALL = [sample(at, 200 - at) for at in range(-10, 150, 5)]
PODS = {"be-leak", "g-db", "bu-web"}
GUILTY = frozenset({"be-leak"})


COMMON = (Line("available", mib=100),)


def compute(text: str, lines: tuple[Line, ...] = COMMON) -> Figures:
    return figures.compute(runlog.parse(text), PODS, GUILTY, lines)


class CatalogueTest(unittest.TestCase):
    def test_everything_that_ships_can_be_read(self) -> None:
        agents, scenarios = catalogue.agents(), catalogue.scenarios()
        self.assertLessEqual(set(catalogue.DEFAULT_AGENTS), set(agents))
        self.assertLessEqual(set(catalogue.DEFAULT_SCENARIOS), set(scenarios))
        for name in agents:
            start = catalogue.AGENTS / name / "start"
            self.assertTrue(start.stat().st_mode & 0o100, name)
        self.assertFalse(any(pod.guilty for pod in catalogue.steady()))
        self.assertEqual(catalogue.steady(3072)[-1].work, "hold 1024M")

    def test_pods_as_kubelet_makes_them(self) -> None:
        def adj(qos: str, request: int) -> int:
            return Pod("p", qos, request, None, "hold 1M", False).oom_score_adj(2000)

        self.assertEqual((adj("guaranteed", 9), adj("besteffort", 0)), (-997, 1000))
        self.assertEqual([adj("burstable", each) for each in (500, 1, 1999)], [750, 999, 3])
        pod = Pod("be-x", "besteffort", 0, None, "hold 1M", False)
        self.assertIn("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod",
                      pod.cgroup)  # fmt: skip
        self.assertNotIn("-", pod.slice.removeprefix("kubepods-besteffort-"))
        whole = Pod("g", "guaranteed", 9, None, "hold 1M", False)
        self.assertTrue(whole.cgroup.startswith("/sys/fs/cgroup/kubepods.slice/kubepods-pod"))
        self.assertIn(f"uid: {pod.uid}, name: be-x", manifest([pod]))
        self.assertEqual(request_table([whole]), f"g {whole.cgroup} 9 0\n")

    def test_mistakes_are_reported(self) -> None:
        good = "title = 't'\nseconds = 1\n[[pods]]\nname = 'p'\nclass = 'besteffort'\nwork = 'w'\n"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.toml"
            for bad in (good, good + "guilty = true\nrequest = '1M'\n", good + "gilty = true\n",
                        good.replace("'p'", f"'{'p' * 16}'") + "guilty = true\n"):  # fmt: skip
                path.write_text(bad)
                with self.assertRaises(CatalogueError, msg=bad):
                    catalogue.read_scenario(path)
            path.write_text(good + "guilty = true\n")
            self.assertEqual(catalogue.read_scenario(path).guilty, {"p"})

    def test_the_seed_decides_the_time_of_go(self) -> None:
        agent = catalogue.agents()["none"]
        scenario = catalogue.scenarios()["spike"]
        first, again, other = (Job(agent, scenario, n, 7) for n in (1, 1, 2))
        self.assertEqual(first.command(), again.command())
        self.assertNotEqual(first.lead_ms, other.lead_ms)


class LogTest(unittest.TestCase):
    def test_incomplete_logs_are_refused(self) -> None:
        for text in ("", "failure be-x is not ready\n== end\n", "== facts\n== samples\n== end\n",
                     log_text([], [])):  # fmt: skip
            with self.assertRaises(LogError, msg=text):
                runlog.parse(text)

    def test_names_with_spaces_and_dashes(self) -> None:
        log = runlog.parse(log_text(FALL, [kill(1, "a-b c-77", "be-leak", 5)]))
        self.assertEqual((log.signals[0].sender, log.signals[0].victim), ("a-b c", "be-leak"))
        self.assertEqual(log.signals[0].at_us, GO + 1000)

    def test_facts(self) -> None:
        log = runlog.parse(log_text(FALL, [], facts="rest_rss_kib 2048\nend_hwm_kib "))
        self.assertEqual(log.number("rest_rss_kib"), 2048)
        self.assertIsNone(log.number("end_hwm_kib"))
        self.assertIsNone(log.number("never_said"))
        self.assertEqual(log.alive, ["g-db"])


    def test_a_cold_half(self) -> None:
        facts = (
            "end_half_kib 163840\nend_zram_kib 71680\nend_touch_count 100\nend_touch_us 250000"
        )
        log = runlog.parse(log_text(FALL, [], facts=facts))
        found = figures.compute(log, set(), frozenset(), ())
        self.assertEqual((found.held_mib, found.touch_us), (160 + 70, 2500))
        without = figures.compute(runlog.parse(log_text(FALL, [])), set(), frozenset(), ())
        self.assertEqual((without.held_mib, without.touch_us), (None, None))


class RecordedTest(unittest.TestCase):
    """A run of earlyoom's that took place, with most of its rows left out; figured by hand."""

    def test_its_figures(self) -> None:
        text = (catalogue.HERE / "recorded/fast-leak.earlyoom.log").read_text()
        scenario = catalogue.scenarios()["fast-leak"]
        pods = {pod.name for pod in (*catalogue.steady(), *scenario.pods)}
        lines = catalogue.agents()["earlyoom"].lines
        found = figures.compute(runlog.parse(text), pods, scenario.guilty, lines)
        self.assertEqual((found.verdict, found.oom_events, found.oom_processes), ("right", 0, 0))
        self.assertEqual(found.kills, [Kill("be-leak", "earlyoom", 1002.228)])
        # 105776 KiB at 904.951 ms, 101680 at 907.464: 102400 at 907.022.
        self.assertAlmostEqual(found.crossing_ms or 0, 907.022, places=3)
        self.assertAlmostEqual(found.crossing_to_signal_ms or 0, 95.206, places=3)
        self.assertEqual(found.common_to_signal_ms, found.crossing_to_signal_ms)
        # 111272 KiB free before, 604252 later on: 505656 first at 1011.888 ms, 394384 more.
        self.assertAlmostEqual(found.signal_to_freed_ms or 0, 9.66, places=3)
        self.assertAlmostEqual(found.unmap_ms or 0, 394384 / 262144 * 4.441, places=3)
        self.assertAlmostEqual(found.signal_to_exit_ms or 0, 9.373, places=3)
        self.assertAlmostEqual(found.minimum_available_mib, 52336 / 1024)
        self.assertEqual(found.worst_stall_ms, 25.582)
        self.assertAlmostEqual(found.agent_cpu_ms or 0, 6.389)
        self.assertAlmostEqual(found.agent_rest_cpu_percent or 0, 0.0435, places=4)
        self.assertEqual((found.agent_rss_mib, found.agent_hwm_mib), (1628 / 1024, 1636 / 1024))
        self.assertIsNone(found.reported_to_signal_ms)


class FiguresTest(unittest.TestCase):
    def test_an_agent_s_kill(self) -> None:
        events = [
            kill(90, "agent-7", "be-leak", 5, number=15),
            kill(112, "agent-7", "be-leak", 5),
            kill(113, "be-leak-5", "be-leak", 6, code=128),
            trace(120, "be-leak-5", "sched_process_exit: comm=be-leak pid=5 prio=120"),
            trace(118, "be-leak-6", "sched_process_exit: comm=be-leak pid=6 prio=120"),
        ]
        found = compute(log_text(FALL, events))
        self.assertEqual((found.verdict, found.oom_events), ("right", 0))
        self.assertEqual(found.kills, [Kill("be-leak", "agent", 112)])
        # 200 MiB less 1 MiB a millisecond: 100 MiB after 100 ms.
        self.assertAlmostEqual(found.crossing_to_signal_ms or 0, 12, places=2)
        self.assertAlmostEqual(found.signal_to_exit_ms or 0, 8, places=2)
        # The delay that began before go is not counted.
        self.assertEqual(found.worst_stall_ms, 25)

    def test_the_kernel_s_kill(self) -> None:
        events = [
            kill(130, "bu-web-9", "g-db", 4, code=128),
            trace(130.1, "bu-web-9", "mark_victim: pid=4 comm=g-db total-vm=1kB"),
        ]
        samples = [*FALL[:-1], sample(145, 55, kills=2)]
        found = compute(log_text(samples, events, ["[1.0] oom-kill:constraint=CONSTRAINT_NONE"]))
        self.assertEqual((found.verdict, found.kills[0].by), ("wrong", "kernel"))
        self.assertEqual((found.oom_events, found.oom_processes), (1, 2))

    def test_a_pod_s_own_kernel_kill_is_seen(self) -> None:
        """The OOM killer runs in the allocating task, which may be the victim itself."""
        events = [
            kill(130, "be-leak-5", "be-leak", 5, code=128),
            trace(130.1, "be-leak-5", "mark_victim: pid=5 comm=be-leak"),
        ]
        found = compute(log_text(FALL, events))
        self.assertEqual(found.kills, [Kill("be-leak", "kernel", 130)])

    def test_strangers_and_the_time_before_go_do_not_count(self) -> None:
        events = [kill(-5, "agent-7", "be-leak", 5), kill(5, "systemd-1", "sleep", 8)]
        self.assertEqual(compute(log_text(FALL, events)).verdict, "none")

    def test_a_kill_between_two_samples(self) -> None:
        log = runlog.parse(log_text([sample(at, 0, kubelet=200 - at) for at in (0, 5, 10)], []))

        def crossing(line: Line, signal: int | None = GO + 13_400) -> float | None:
            return figures.crossing(log, (line,), GO, signal)

        line = Line("kubelet_available", mib=187)
        self.assertEqual(crossing(line), GO + 13_000)
        # Far from the line nothing was crossed, nor where memory does not fall.
        self.assertIsNone(crossing(line, None))
        self.assertIsNone(crossing(Line("available", mib=-5)))
        self.assertIsNone(crossing(Line("kubelet_available", mib=100)))

    def test_the_first_of_several_lines(self) -> None:
        samples = [sample(at, 200 - at, kubelet=300 - at, left=90 - at) for at in range(0, 90, 5)]
        log = runlog.parse(log_text(samples, []))
        lines = {
            "kubelet_available": Line("kubelet_available", mib=216.5),
            "available": Line("available", mib=117.5),
            "limit_left": Line("limit_left", mib=16),
        }
        expected_ms = {"kubelet_available": 83.5, "available": 82.5, "limit_left": 74}
        for line, expected in expected_ms.items():
            at = figures.crossing(log, (lines[line],), GO, None)
            self.assertEqual(at, GO + expected * 1000, line)
        self.assertEqual(figures.crossing(log, tuple(lines.values()), GO, None), GO + 74_000)
        # Where no pod has a limit, there is no such line.
        other = runlog.parse(log_text(FALL, []))
        self.assertIsNone(figures.crossing(other, (lines["limit_left"],), GO, None))

    def test_lines_that_ask_for_little_swap_too(self) -> None:
        """Memory is short at 10 ms, swap at 40 ms: only then it is both."""
        falling = [sample(at, 110 - at, swap=200 - 2 * at) for at in range(0, 100, 5)]
        log = runlog.parse(log_text(falling, []))
        both = Line("available", mib=100, swap_percent=60)
        self.assertEqual(figures.crossing(log, (both,), GO, None), GO + 40_000)
        alone = Line("available", percent=100, swap_percent=60, with_swap=True)
        self.assertEqual(figures.crossing(log, (alone,), GO, None), GO + 40_000)
        together = Line("until_oom", mib=220)
        self.assertEqual(figures.crossing(log, (together,), GO, None), GO + 30_000)
        # Without swap the second condition is always met, or the line is not there at all.
        none = runlog.parse(log_text(FALL, []))
        self.assertEqual(figures.crossing(none, (both,), GO, None), GO + 100_000)
        self.assertIsNone(figures.crossing(none, (alone,), GO, None))
        self.assertIsNone(compute(log_text(FALL, []), (alone,)).crossing_ms)
        self.assertIsNone(compute(log_text(FALL, []), ()).crossing_ms)

    def test_when_memory_is_free_again(self) -> None:
        free = [(0, 50), (5, 50), (10, 60), (15, 130), (20, 151), (25, 150)]
        samples = [Sample(at, mib << 10, 0, 0, 0, 0, 0) for at, mib in free]
        # 101 MiB come free; four fifths of them are what is timed and compared.
        self.assertEqual(figures.freed(samples, 6), (20, round(0.8 * 101 * 1024)))
        self.assertEqual(figures.freed(samples, 26), (None, 0))
        self.assertEqual(figures.freed(samples[:3], 6), (None, 0))
        self.assertEqual(figures.freed(samples, None), (None, 0))

    def test_as_much_memory_unmapped(self) -> None:
        samples = [*FALL, sample(151, 200, free_mib=250)]
        events = [kill(140, "agent-7", "be-leak", 5)]
        found = compute(log_text(samples, events, facts="unmap_kib 262144\nunmap_us 8000"))
        # 80 % of 200 MiB, of which 256 take 8 ms.
        self.assertAlmostEqual(found.unmap_ms or 0, 5, places=3)
        self.assertEqual(found.signal_to_freed_ms, 11)
        self.assertIsNone(compute(log_text(samples, events)).unmap_ms)
        self.assertIsNone(compute(log_text(FALL, events, facts="unmap_kib 1\nunmap_us 1")).unmap_ms)

    def test_the_agents_own_report(self) -> None:
        reported = (
            "forestall[9]: event=outcome record={} state=released "
            "crossed_to_signalled_at_most_us={}"
        )
        log = log_text(FALL, []).replace(
            "== end",
            "\n".join(["== agent", reported.format(1, 1614.0), reported.format(2, 9.5), "== end"]),
        )
        self.assertEqual(compute(log).reported_to_signal_ms, 1.614)

    def test_cost(self) -> None:
        facts = ("start_cpu_us 1000\nrest_cpu_us 3000\nend_cpu_us 8000\nstart_monotonic 5.0\n"
                 "rest_monotonic 7.0\nrest_rss_kib 1024\nend_hwm_kib 3072\n"
                 "end_restarts 0")  # fmt: skip
        found = compute(log_text(FALL, [], facts=facts))
        self.assertEqual((found.agent_cpu_ms, found.agent_rest_cpu_percent), (5, 0.1))
        self.assertEqual((found.agent_rss_mib, found.agent_hwm_mib), (1, 3))
        self.assertIsNone(compute(log_text(FALL, [])).agent_cpu_ms)


def result(agent: str, scenario: str, latency: float, by: str = "", repetition: int = 1) -> Result:
    events = [kill(100 + latency, f"{by or agent}-7", "be-leak", 5)]
    if by == "kernel":
        events = [
            kill(100 + latency, "x-7", "be-leak", 5, code=128),
            trace(120, "x-7", "mark_victim: pid=5 comm=be-leak"),
        ]
    found = compute(log_text(FALL, events))
    return Result(agent, scenario, repetition, 1, 1000, "log", figures=found)


class SummaryTest(unittest.TestCase):
    def test_median_and_spread(self) -> None:
        self.assertEqual(Spread.of([3, None, 1, 2]), Spread(2, 1, 3, 3))
        self.assertIsNone(Spread.of([None]))

    def test_no_run_is_dropped(self) -> None:
        failed = Result("a", "s", 2, 1, 1000, "log", failure="the guest died")
        cells = summary.cells([result("a", "s", 5), failed])
        self.assertEqual((cells[0].runs, cells[0].failures), (2, ["the guest died"]))
        text = "\n".join(table.lines(cells, {"s": "title"}, [], []))
        self.assertIn("1/2", text)
        self.assertIn("FAILED s a: the guest died", text)

    def test_ratio_to_the_fastest_peer_that_acted_itself(self) -> None:
        cells = summary.cells([
            result("ours", "s", 2), result("slow", "s", 40), result("fast", "s", 20),
            result("none", "s", 1, by="kernel"), result("ours", "t", 3),
            result("none", "t", 30, by="kernel"), result("late", "t", 30, by="kernel"),
            result("ours", "u", 3),
        ])  # fmt: skip
        one, two, alone = summary.ratios(cells, {"ours"})
        self.assertEqual((one.peer, two.peer), ("fast", None))
        self.assertAlmostEqual(one.ratio or 0, 0.1)
        self.assertIn("fast", table.ratio_line(one))
        self.assertIn("no peer acted", table.ratio_line(two))
        self.assertIn("no peer was run", table.ratio_line(alone))

    def test_targets(self) -> None:
        cells = summary.cells([
            result("ours", "s", 2), result("peer", "s", 20), result("none", "s", 40, by="kernel"),
            result("ours", "t", 7), result("peer", "t", 20),
            result("ours", "u", 9, by="kernel"),
        ])  # fmt: skip
        found = targets(cells, summary.ratios(cells, {"ours"}), {"ours"}, {"t": "s", "u": "s"})
        self.assertEqual(
            [(aim.name.split(",")[0], aim.scenario, aim.met) for aim in found],
            [
                ("first and right", "s", True), ("first and right", "t", True),
                ("first and right", "u", False),
                ("line→kill", "s", True), ("line→kill", "t", False),
                ("line→kill", "t", False), ("line→kill", "u", False),
            ],
        )  # fmt: skip
        self.assertIn("alone the kernel kills 40 ms after the line", found[0].line())
        self.assertIn("MISSED: 7.00 ms, idle 2.00 ms: 3.50", found[5].line())

    def test_a_target_is_missed_by_one_run(self) -> None:
        wrong = compute(log_text(FALL, [kill(101, "ours-7", "g-db", 5)]))
        lost = Result("ours", "s", 3, 1, 1000, "log", failure="the guest died")
        good = result("ours", "s", 2)
        for other in (Result("ours", "s", 2, 1, 1000, "log", figures=wrong), lost):
            cells = summary.cells([good, other])
            self.assertFalse(targets(cells, [], {"ours"}, {})[0].met)
        self.assertTrue(targets(summary.cells([good]), [], {"ours"}, {})[0].met)

    def test_the_cost_of_rules(self) -> None:
        def cell(agent: str, cpu_ms: float, verdict: str = "none") -> summary.Cell:
            spreads = {"agent_cpu_ms": Spread(cpu_ms, cpu_ms, cpu_ms, 1)}
            return summary.Cell(agent, "c", 1, verdicts={verdict: 1}, spreads=spreads)

        def met(*cells: summary.Cell) -> list[bool | None]:
            found = targets(list(cells), [], {"ours"}, {}, frozenset({"c"}), {"ours": "peer"})
            return [aim.met for aim in found]

        self.assertEqual(met(cell("ours", 20), cell("peer", 100)), [True])
        self.assertEqual(met(cell("ours", 21), cell("peer", 100)), [False])
        self.assertEqual(met(cell("ours", 20, "wrong"), cell("peer", 100)), [False])
        self.assertEqual(met(cell("ours", 20)), [None])

    def test_a_slow_release_is_missed(self) -> None:
        samples = [*FALL, sample(151, 200, free_mib=250)]
        text = log_text(samples, [kill(140, "ours-7", "be-leak", 5)])
        ours = Result("ours", "s", 1, 1, 1000, "log", figures=compute(text))
        for signalled, met in ((146, False), (142, True)):
            text = log_text(samples, [kill(signalled, "known-8", "be-leak", 5)])
            plain = Result("plain-exit", "s", 1, 1, 1000, "log", figures=compute(text))
            cells = summary.cells([ours, plain])
            self.assertEqual([aim.met for aim in targets(cells, [], {"ours"}, {})], [True, met])
        found = targets(summary.cells([ours]), [], {"ours"}, {})[1]
        self.assertIsNone(found.met)
        self.assertIn("no plain exit was run", found.line())

    def test_texts(self) -> None:
        measure = next(m for m in summary.MEASURES if m.digits == 0)
        self.assertEqual(table.spread_text(Spread(2, 2, 2, 3), measure), "2")
        self.assertEqual(table.spread_text(Spread(2, -0.4, 3, 3), measure), "2 [0..3]")
        self.assertEqual(table.spread_text(None, measure), "-")
        self.assertEqual(table.counts_text({"a": 2, "b": 1}, 2), "a b(1/2)")

    def test_the_page_escapes(self) -> None:
        cells = summary.cells([Result("a", "s", 1, 1, 1, "log", failure="<b>")])
        text = page.render(cells, [], {}, [], [], [{"seed": "<1>"}], None)
        self.assertIn("&lt;b&gt;", text)
        self.assertNotIn("<1>", text)


class SessionTest(unittest.TestCase):
    def test_a_folder_is_added_to(self) -> None:
        agents, scenarios = catalogue.agents(), catalogue.scenarios()
        with tempfile.TemporaryDirectory() as name, \
                mock.patch("bench.session.draw", return_value=None):  # fmt: skip
            folder = Path(name)
            with gzip.open(folder / "log", "wt") as file:
                file.write(log_text(FALL, [kill(112, "earlyoom-7", "be-leak", 5)]))
            first = Session.of(folder, agents, scenarios)
            first.begin({"seed": "1"})
            first.add(Result("earlyoom", "fast-leak", 1, 1, 1000, "log"))
            first.write(agents, scenarios)
            second = Session.of(folder, agents, scenarios)
            self.assertEqual(second.repetitions("earlyoom", "fast-leak"), 1)
            self.assertEqual(second.repetitions("none", "fast-leak"), 0)
            second.begin({"seed": "2"})
            second.add(Result("none", "spike", 1, 2, 1000, "lost", failure="the guest died"))
            text = "\n".join(second.write(agents, scenarios))
            self.assertIn("the guest died", text)
            self.assertEqual([r.invocation for r in second.results], [0, 1])
            found = second.results[0].figures
            self.assertEqual(found.kills if found else [], [Kill("be-leak", "earlyoom", 112)])
            self.assertIn("seed: 2", (folder / "index.html").read_text())


class RunTest(unittest.TestCase):
    def test_a_machine_that_the_emulator_broke_is_tried_again(self) -> None:
        job = Job(catalogue.agents()["none"], catalogue.scenarios()["fast-leak"], 1, 7)
        broken = ("failure the guest died\n", "RSP: 0018:ffff EFLAGS: 066a16c2\n")
        died = ("failure the guest died\n", "RSP: 0018:ffff EFLAGS: 00000246\n")
        good = (log_text(FALL, [kill(112, "x-7", "be-leak", 5)]) + "\n", "")
        for attempts, count, failed in (
            ([broken, broken, good], 2, False), ([died], 0, True), ([broken] * 3, 2, True),
        ):  # fmt: skip
            bench = Bench.__new__(Bench)
            bench._steady = catalogue.steady()
            with tempfile.TemporaryDirectory() as folder, \
                    mock.patch.object(Bench, "_attempt", side_effect=attempts):  # fmt: skip
                found = bench.run(job, Path(folder))
            self.assertEqual((found.broken_machines, bool(found.failure)), (count, failed))


class DiskTest(unittest.TestCase):
    def test_a_disk_appears_whole(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            tree.mkdir()
            (tree / "file").write_text("x")
            disk = Path(folder) / "disk.img"
            make_disk(tree, disk, 4)
            self.assertEqual([path.name for path in Path(folder).glob("disk*")], ["disk.img"])


if __name__ == "__main__":
    unittest.main()
