# SPDX-License-Identifier: Apache-2.0
"""Tests of the harness's pure parts; no guest is booted and no network used.

The harness decides whether the product's VM cases passed, so a slip in here
could turn a failure into a pass unnoticed. Run with
`python3 -m unittest` in this folder.
"""

from __future__ import annotations

import io
import struct
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import run
from harness import bzimage, gtest, kernels, libraries, mirrors, modules, placement
from harness.campaign import Campaign, Environment, Limits, boot_fault, ended_as_expected
from harness.cpio import BLOCK, Archive
from harness.gtest import Case, Reader, Verdict
from harness.guest import Ending, Fleet, Follower, Machine, Outcome, command_line
from harness.image import Plan
from harness.report import Summary


def read_all(text: str) -> Reader:
    reader = Reader()
    for line in text.splitlines():
        reader.broadcast(line)
    return reader


class ListTest(unittest.TestCase):
    TEXT = """Running main() from gtest_main.cc
Node.
  FastLeak
  DISABLED_Old
Seq/Param.
  Case/0  # GetParam() = "a.b"
Typed/0.  # TypeParam = int
  Works
"""

    def test_names_in_order(self) -> None:
        self.assertEqual(
            gtest.parse_list(self.TEXT),
            ["Node.FastLeak", "Node.DISABLED_Old", "Seq/Param.Case/0", "Typed/0.Works"],
        )

    def test_disabled_cases_and_suites(self) -> None:
        self.assertTrue(gtest.is_disabled("Node.DISABLED_Old"))
        self.assertTrue(gtest.is_disabled("Seq/DISABLED_Param.Case/0"))
        self.assertFalse(gtest.is_disabled("Node.NotDISABLED_"))

    def test_select(self) -> None:
        names = ["A.One", "A.Two", "B.One"]
        self.assertEqual(gtest.select(names, []), names)
        self.assertEqual(gtest.select(names, ["A.*", "*.One"]), names)
        self.assertEqual(gtest.select(names, ["B.?ne"]), ["B.One"])


class PlacementTest(unittest.TestCase):
    NAMES = ["A.One", "B.One", "B.Two"]
    GUESTS = [Environment("6.1", "v1"), Environment("6.1", "v2"), Environment("6.12", "v2"),
              Environment("newest", "v2")]  # fmt: skip
    SYSTEMD = Environment("6.12", "systemd")

    def where(self, patterns: dict[str, str], guests: list[Environment] = GUESTS) -> list[str]:
        """The guests of B.Two."""
        placed = placement.place(guests, self.NAMES, patterns)
        self.assertEqual([guest for guest, _ in placed], guests)
        return [guest.name for guest, cases in placed if "B.Two" in cases]

    def test_patterns_have_sections_and_comments(self) -> None:
        text = "# why\n\n[once]  # here\nA.*  # and this\n[per kernel]\nB.Two\n"
        self.assertEqual(placement.parse(text), {"A.*": "once", "B.Two": "per kernel"})
        for wrong in ("A.*\n", "[per planet]\n"):
            with self.assertRaises(placement.BadList):
                placement.parse(wrong)

    def test_each_section_has_its_guests(self) -> None:
        self.assertEqual(self.where({"B.One": "once"}), [guest.name for guest in self.GUESTS])
        self.assertEqual(self.where({"B.*": "host"}), [])
        self.assertEqual(self.where({"B.*": "once"}), ["6.12 v2"])
        self.assertEqual(self.where({"B.*": "per cgroup version"}), ["6.1 v1", "newest v2"])
        self.assertEqual(self.where({"B.*": "per kernel"}), ["6.1 v2", "6.12 v2", "newest v2"])
        for host, guest in (("v1", "newest v2"), ("v2", "6.1 v1")):
            with mock.patch.object(placement, "host_cgroup_version", return_value=host):
                self.assertEqual(self.where({"B.*": "other cgroup version"}), [guest])

    def test_the_guest_with_systemd_has_its_own_cases_only(self) -> None:
        guests = [*self.GUESTS, self.SYSTEMD]
        self.assertEqual(self.where({"B.*": "systemd"}, guests), ["6.12 systemd"])
        self.assertEqual(self.where({}, guests), [guest.name for guest in self.GUESTS])
        self.assertEqual(self.where({"B.*": "once"}, guests), ["6.12 v2"])

    def test_the_first_pattern_decides(self) -> None:
        self.assertEqual(self.where({"B.Two": "once", "B.*": "per kernel"}), ["6.12 v2"])

    def test_every_case_for_a_guest_runs_whatever_guests_there_are(self) -> None:
        for section in placement.SECTIONS.keys() - {"host", "systemd"}:
            for guest in self.GUESTS:
                self.assertEqual(self.where({"B.*": section}, [guest]), [guest.name])
            self.assertEqual(self.where({"B.*": section}, []), [])
        self.assertEqual(self.where({"B.*": "per cgroup version"}, self.GUESTS[:3]),
                         ["6.1 v1", "6.12 v2"])  # fmt: skip

    def test_a_pattern_without_a_case_is_found(self) -> None:
        patterns = dict.fromkeys(["B.*", "C.*", "A.Two"], "once")
        self.assertEqual(placement.unmatched(patterns, self.NAMES), ["C.*", "A.Two"])

    def test_boots_have_all_cases_in_order_and_whole_suites(self) -> None:
        self.assertEqual(placement.boots(self.NAMES), [self.NAMES])
        self.assertEqual(placement.boots([]), [])
        many = [f"S{number % 30}.{number}" for number in range(120)]
        boots = placement.boots(many)
        self.assertEqual([len(boot) for boot in boots], [60, 32, 28])
        self.assertEqual(sorted(sum(boots, [])), sorted(many))
        for boot in boots:
            self.assertEqual(boot, [name for name in many if name in boot])
            self.assertEqual({name for name in many if name.split(".")[0] in
                              {each.split(".")[0] for each in boot}}, set(boot))  # fmt: skip


class ReaderTest(unittest.TestCase):
    def only(self, text: str) -> Case:
        reader = read_all(text)
        self.assertEqual(len(reader.ended), 1)
        self.assertIsNone(reader.open)
        return reader.ended[0]

    def test_pass_with_metric(self) -> None:
        case = self.only("[ RUN      ] A.B\n@metric kill 1.5 ms\n[       OK ] A.B (1200 ms)")
        self.assertEqual((case.name, case.verdict, case.seconds), ("A.B", Verdict.PASS, 1.2))
        self.assertEqual(case.metrics, [gtest.Metric("kill", 1.5, "ms")])

    def test_verdict_glued_to_output(self) -> None:
        case = self.only("[ RUN      ] A.B\nno newline[       OK ] A.B (1 ms)")
        self.assertIs(case.verdict, Verdict.PASS)

    def test_failure_with_parameter(self) -> None:
        case = self.only(
            "[ RUN      ] S/A.B/0\nx.cc:1: Failure\n"
            '[  FAILED  ] S/A.B/0, where GetParam() = "x, y" (3 ms)\n'
            "[  FAILED  ] S/A.B/0\n 1 FAILED TEST"
        )
        self.assertIs(case.verdict, Verdict.FAIL)
        self.assertIn("x.cc:1: Failure", case.lines)

    def test_skip_needs_the_magic_words(self) -> None:
        skip = "[ RUN      ] A.B\nx.cc:1: Skipped\n{}\n\n[  SKIPPED ] A.B (0 ms)"
        good = self.only(skip.format("not applicable: no memory.high"))
        self.assertEqual((good.verdict, good.reason), (Verdict.NOT_APPLICABLE, "no memory.high"))
        bad = self.only(skip.format("flaky, see not applicable: never"))
        self.assertIs(bad.verdict, Verdict.FAIL)
        mute = self.only("[ RUN      ] A.B\n[  SKIPPED ] A.B (0 ms)")
        self.assertIs(mute.verdict, Verdict.FAIL)

    def test_suite_skip_gives_its_reason_to_the_cases(self) -> None:
        case = self.only(
            "[----------] 1 test from A\nx.cc:1: Skipped\nnot applicable: whole suite\n\n"
            "[ RUN      ] A.B\n[  SKIPPED ] A.B (0 ms)"
        )
        self.assertEqual((case.verdict, case.reason), (Verdict.NOT_APPLICABLE, "whole suite"))

    def test_a_case_without_verdict_fails(self) -> None:
        reader = read_all("[ RUN      ] A.B\n[ RUN      ] A.C\n[       OK ] A.C (1 ms)")
        self.assertEqual([c.verdict for c in reader.ended], [Verdict.FAIL, Verdict.PASS])
        reader = read_all("[ RUN      ] A.B\nhalf a li")
        case = reader.abandon("the guest died", 2.0)
        assert case is not None
        self.assertEqual((case.verdict, case.reason), (Verdict.FAIL, "the guest died"))

    def test_verdict_of_another_case_is_not_taken(self) -> None:
        reader = read_all("[ RUN      ] A.B\n[       OK ] A.Other (1 ms)")
        self.assertEqual(reader.ended, [])

    def test_malformed_metric_fails_the_case(self) -> None:
        case = self.only("[ RUN      ] A.B\n@metric x fast ms\n[       OK ] A.B (1 ms)")
        self.assertIs(case.verdict, Verdict.FAIL)


class ModulesTest(unittest.TestCase):
    DEP = """kernel/drivers/block/zram/zram.ko.xz: kernel/mm/zsmalloc.ko.xz kernel/lib/a-b.ko.xz
kernel/mm/zsmalloc.ko.xz:
kernel/lib/a-b.ko.xz: kernel/lib/base.ko.xz
kernel/lib/base.ko.xz:
kernel/fs/other.ko.xz:
"""

    def test_needs_come_first_and_once(self) -> None:
        order = modules.load_order(modules.parse_dependencies(self.DEP), ("a_b", "zram", "absent"))
        self.assertEqual(
            [modules.module_name(path) for path in order], ["base", "a_b", "zsmalloc", "zram"]
        )

    def test_plain_path(self) -> None:
        self.assertEqual(modules.plain_path("kernel/lib/a-b.ko.xz"), "kernel/lib/a-b.ko")
        self.assertEqual(modules.plain_path("kernel/lib/a-b.ko"), "kernel/lib/a-b.ko")


class LddTest(unittest.TestCase):
    def test_libraries_go_where_the_loader_evaluations(self) -> None:
        text = """\tlinux-vdso.so.1 (0x00007ffd)
\tlibfoo.so.1 => /opt/foo/libfoo.so.1 (0x00007f)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f)
"""
        self.assertEqual(
            libraries.parse_ldd(text),
            {
                "lib/x86_64-linux-gnu/libfoo.so.1": "/opt/foo/libfoo.so.1",
                "lib64/ld-linux-x86-64.so.2": "/lib64/ld-linux-x86-64.so.2",
            },
        )

    def test_missing_library(self) -> None:
        with self.assertRaises(libraries.MissingLibrary):
            libraries.parse_ldd("\tlibgone.so => not found\n")

    def test_static_program(self) -> None:
        self.assertEqual(libraries.parse_ldd("\tstatically linked\n"), {})


class MirrorsTest(unittest.TestCase):
    def test_deb822(self) -> None:
        text = """Types: deb
# a comment
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
"""
        chosen = mirrors.choose(mirrors.deb822_entries(text))
        self.assertEqual(chosen.archive, "http://mirror.example/debian")
        self.assertEqual(chosen.security, "http://mirror.example/security")

    def test_one_line_and_third_parties(self) -> None:
        text = """# deb http://commented.example/debian bookworm main
deb https://packages.cloud.example/apt cloud-sdk-bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://one.example/debian bookworm main contrib
deb-src http://one.example/debian bookworm main
"""
        chosen = mirrors.choose(mirrors.one_line_entries(text))
        self.assertEqual(
            chosen,
            mirrors.Mirrors(
                "http://one.example/debian", "http://one.example/debian-security", True
            ),
        )

    def test_security_is_guessed_only_beside_a_private_mirror(self) -> None:
        for address in ("https://ftp.de.debian.org/debian", "http://m.example/os/bookworm"):
            self.assertEqual(mirrors.choose([(address, "bookworm")]), mirrors.Mirrors(address))
        named = [("http://m/debian", "bookworm"), ("http://s/updates", "bookworm-security")]
        self.assertEqual(
            mirrors.choose(named), mirrors.Mirrors("http://m/debian", "http://s/updates")
        )

    def test_a_wrong_guess_costs_only_the_security_suite(self) -> None:
        class FakeApt:
            asked: list[list[str]] = []

            def __init__(self, folder: Path, sources: list[str]) -> None:
                self.asked.append(sources)

            def update(self) -> None:
                if any("-security" in line for line in self.asked[-1]):
                    raise kernels.FetchError("404")

        folder = Path("/nowhere")
        with mock.patch.object(kernels, "Apt", FakeApt):
            guessed = mirrors.choose([("http://m.example/debian", "bookworm")])
            _, note = kernels.updated_apt(folder, kernels.TRACKS[0], guessed)
            self.assertEqual([len(sources) for sources in FakeApt.asked], [2, 1])
            self.assertIn("without security updates", note)
            # An address given by the user must work.
            named = mirrors.Mirrors("http://m.example/debian", "http://m.example/s")
            with self.assertRaises(kernels.FetchError):
                kernels.updated_apt(folder, kernels.TRACKS[0], named)

    def test_without_any_entry(self) -> None:
        self.assertEqual(mirrors.choose([]), mirrors.Mirrors())

    def test_files_of_both_formats(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "sources.list.d").mkdir()
            (folder / "sources.list.d/debian.sources").write_text(
                "Types: deb\nURIs: http://a.example/debian\nSuites: trixie\n"
            )
            (folder / "sources.list.d/debian.sources.bak").write_text("deb http://b/ sid main\n")
            self.assertEqual(mirrors.of_this_machine(folder).archive, "http://a.example/debian")

    def test_source_line_is_signed(self) -> None:
        line = mirrors.Mirrors("http://a", "http://s").source_line("bookworm-security")
        self.assertIn(f"signed-by={mirrors.KEYRING}", line)
        self.assertIn(" http://s bookworm-security main", line)


class KernelsTest(unittest.TestCase):
    def test_parts_of_old_and_new_packages(self) -> None:
        self.assertEqual(
            kernels.kernel_parts("linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)"),
            ["linux-image-6.1.0-56-cloud-amd64"],
        )
        depends = (
            "linux-base-7.2.13+deb14-cloud-amd64 (= 1), kmod | module-init-tools, "
            "linux-binary-7.2.13+deb14-cloud-amd64 (= 1) | linux-binary-unsigned-7.2.13, "
            "linux-modules-7.2.13+deb14-cloud-amd64 (= 1)"
        )
        self.assertEqual(
            kernels.kernel_parts(depends),
            ["linux-binary-7.2.13+deb14-cloud-amd64", "linux-modules-7.2.13+deb14-cloud-amd64"],
        )

    def test_fields_of_the_first_stanza(self) -> None:
        text = "Package: a\nDepends: b, c\nDescription: x\n more: no\n\nPackage: z\n"
        fields = kernels.parse_fields(text)
        self.assertEqual((fields["Package"], fields["Depends"]), ("a", "b, c"))
        self.assertNotIn("more", fields)

    def test_bzimage_payload(self) -> None:
        image = bytearray(2048)
        image[0x1F1] = 1
        image[0x202:0x206] = b"HdrS"
        struct.pack_into("<II", image, 0x248, 16, 12)
        image[1024 + 16 : 1024 + 28] = b"kernel##size"
        self.assertEqual(bzimage.payload(bytes(image)), b"kernel##")
        self.assertIsNone(bzimage.extract(bytes(image)))
        self.assertIsNone(bzimage.payload(b"\0" * 2048))


class CpioTest(unittest.TestCase):
    def entries(self, archive: bytes) -> dict[str, tuple[int, bytes]]:
        found = {}
        at = 0
        while True:
            self.assertEqual(archive[at : at + 6], b"070701")
            fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
            mode, size, name_size = fields[1], fields[6], fields[11]
            name = archive[at + 110 : at + 110 + name_size - 1].decode()
            at += 110 + name_size
            at += -at % 4
            if name == "TRAILER!!!":
                return found
            self.assertNotIn(name, found)
            found[name] = (mode, archive[at : at + size])
            at += size + -size % 4

    def test_round_trip(self) -> None:
        output = io.BytesIO()
        archive = Archive(output)
        archive.file("a/b/program", b"12345", 0o755)
        archive.file("a/b/text", b"")
        archive.link("a/link", "b/text")
        archive.character_device("dev/console", 5, 1)
        archive.finish()
        written = output.getvalue()
        self.assertEqual(len(written) % BLOCK, 0)
        entries = self.entries(written)
        self.assertEqual(
            list(entries), ["a", "a/b", "a/b/program", "a/b/text", "a/link", "dev", "dev/console"]
        )
        self.assertEqual(entries["a/b/program"], (0o100755, b"12345"))
        self.assertEqual(entries["a/link"], (0o120777, b"b/text"))
        self.assertEqual(entries["dev/console"][0], 0o020600)
        self.assertEqual(entries["a"][0], 0o040755)


class MachineTest(unittest.TestCase):
    def test_has_the_requested_memory_and_cpus(self) -> None:
        command = command_line(Machine(Path("k"), Path("i"), Path("f"), 1024, 3, "token", 1))
        self.assertEqual(command[command.index("-smp") + 1], "3")
        self.assertEqual(command[command.index("-m") + 1], "1024")


class FollowerTest(unittest.TestCase):
    def test_only_lines_with_the_token_are_from_init(self) -> None:
        lines: list[str] = []
        follower = Follower("@@t@@", lines.append)
        follower.take(b"\n@@t@@ ready 6.1.0\n@@x@@ exit 0\nhal")
        follower.take(b"f\r\npartial")
        self.assertEqual(lines, ["", "@@x@@ exit 0", "half"])
        self.assertFalse(follower.done)
        follower.take(b"\n@@t@@ exit 137\n")
        self.assertTrue(follower.done)
        self.assertEqual(follower.outcome, Outcome(Ending.FINISHED, "6.1.0", 137))

    def test_silence_is_death(self) -> None:
        follower = Follower("@@t@@", lambda line: None)
        follower.take(b"last words")
        follower.flush()
        self.assertIs(follower.outcome.ending, Ending.DIED)

    def test_plan_survives_quoting(self) -> None:
        plan = Plan("@@t@@", "6.1", "v1", "command", command="echo 'a b' $X; exit 1")
        script = plan.script()
        self.assertIn("FORESTALL_TEST_ENV=vm:6.1:v1\n", script)
        self.assertIn("COMMAND='echo '\"'\"'a b'\"'\"' $X; exit 1'\n", script)


def environment(*verdicts: Verdict, **fields: str) -> Environment:
    made = Environment("6.1", "v2", **fields)  # type: ignore[arg-type]
    made.cases = [Case(f"A.{index}", verdict) for index, verdict in enumerate(verdicts)]
    return made


class SummaryTest(unittest.TestCase):
    def status(self, *environments: Environment) -> int:
        return Summary(list(environments), {"6.1", "6.12"}).exit_status

    def test_exit_status(self) -> None:
        passed = environment(Verdict.PASS, Verdict.NOT_APPLICABLE)
        self.assertEqual(self.status(passed), 0)
        self.assertEqual(self.status(passed, environment(Verdict.FAIL)), 1)
        self.assertEqual(self.status(environment(Verdict.NOT_APPLICABLE)), 1)
        self.assertEqual(self.status(), 1)
        self.assertEqual(self.status(passed, environment(fault="did not boot")), 2)
        self.assertEqual(self.status(passed, environment(unavailable="no network")), 2)

    def test_newest_may_be_missing(self) -> None:
        newest = Environment("newest", "v2", unavailable="no key")
        self.assertEqual(self.status(environment(Verdict.PASS), newest), 0)

    def test_last_line(self) -> None:
        summary = Summary([environment(Verdict.PASS, Verdict.FAIL)], set())
        self.assertEqual(
            summary.last_line(), "vmtests: 1 passed, 1 failed, 0 n/a on 1 environment"
        )
        self.assertEqual(summary.as_json()["failed"], 1)


class EndingTest(unittest.TestCase):
    def test_exit_status_must_fit_the_verdicts(self) -> None:
        passed, failed = Case("A.B", Verdict.PASS), Case("A.C", Verdict.FAIL)
        for status, cases, expected in (
            (0, [passed], True),
            (1, [passed, failed], True),
            (1, [passed], False),
            (139, [failed], False),
        ):
            outcome = Outcome(Ending.FINISHED, "6.1", status)
            self.assertIs(ended_as_expected(outcome, cases), expected)
        self.assertFalse(ended_as_expected(Outcome(Ending.DIED, "6.1", 0), [passed]))

    def test_boot_fault_has_a_reason(self) -> None:
        self.assertEqual(boot_fault(Outcome(Ending.UNFIT, detail="no v1")), "no v1")
        self.assertIn("did not boot", boot_fault(Outcome(Ending.DIED)))


class ScriptedCampaign(Campaign):
    """A campaign whose guests are texts: what each boot prints, and how it ends."""

    def __init__(
        self, boots: list[tuple[str, Outcome]], logs: Path = Path("/nonexistent")
    ) -> None:
        self.asked: list[list[str]] = []
        self._boots = boots
        self._logs = logs
        limits = Limits(1, 1, 1, 1)
        super().__init__(
            Environment("6.1", "v2"), Fleet(), limits, (), Path(), {}, lambda e, c: None
        )

    def _boot_with(self, remaining):  # type: ignore[no-untyped-def]
        from harness.campaign import Boot

        self.asked.append(list(remaining))
        text, outcome = self._boots.pop(0)
        machine = Machine(Path(), Path(), self._logs, 1, 1, "", 1)
        boot = Boot(machine, self._limits, self._settle)
        for line in text.splitlines():
            boot.line(line)
        return outcome, boot, machine

    def verdicts(self, names: list[str]) -> dict[str, str]:
        self.run_cases(names)
        return {case.name: case.verdict.value for case in self.environment.cases}


class CampaignTest(unittest.TestCase):
    OK = "[ RUN      ] {0}\n[       OK ] {0} (1 ms)\n"
    DIED = Outcome(Ending.DIED, "6.1.0")
    FINE = Outcome(Ending.FINISHED, "6.1.0", 0)

    def test_a_crash_costs_one_case_and_one_boot(self) -> None:
        campaign = ScriptedCampaign(
            [
                (self.OK.format("A.1") + "[ RUN      ] A.2\n", self.DIED),
                (self.OK.format("A.3"), self.FINE),
            ]
        )
        verdicts = campaign.verdicts(["A.1", "A.2", "A.3"])
        self.assertEqual(verdicts, {"A.1": "PASS", "A.2": "FAIL", "A.3": "PASS"})
        self.assertEqual(campaign.asked[1], ["A.3"])

    def test_a_boot_that_the_emulator_broke_is_repeated(self) -> None:
        died = (self.OK.format("A.1") + "[ RUN      ] A.2\n", self.DIED)
        with tempfile.TemporaryDirectory() as folder:
            console = Path(folder) / "console.log"
            console.write_text("[   61.7] Oops: int3: 0000 [#1] SMP\n")
            campaign = ScriptedCampaign([died, (self.OK.format("A.2"), self.FINE)], Path(folder))
            self.assertEqual(campaign.verdicts(["A.1", "A.2"]), {"A.1": "PASS", "A.2": "PASS"})
            self.assertEqual(campaign.asked[1], ["A.2"])
            # Another oops, with flags as no CPU has them, then with flags as they can be.
            oops = "[   61.7] Oops: 0002 [#1] SMP\n[   61.7] RSP: 0018:ffff EFLAGS: {}\n"
            console.write_text(oops.format("066a16c2"))
            campaign = ScriptedCampaign([died, (self.OK.format("A.2"), self.FINE)], Path(folder))
            self.assertEqual(campaign.verdicts(["A.1", "A.2"]), {"A.1": "PASS", "A.2": "PASS"})
            console.write_text(oops.format("00210ed7"))
            campaign = ScriptedCampaign([died], Path(folder))
            self.assertEqual(campaign.verdicts(["A.1", "A.2"]), {"A.1": "PASS", "A.2": "FAIL"})

    def test_a_case_which_dies_unseen_is_the_next_one(self) -> None:
        campaign = ScriptedCampaign(
            [(self.OK.format("A.1"), self.DIED), (self.OK.format("A.3"), self.FINE)]
        )
        verdicts = campaign.verdicts(["A.1", "A.2", "A.3"])
        self.assertEqual(verdicts, {"A.1": "PASS", "A.2": "FAIL", "A.3": "PASS"})

    def test_a_case_which_never_reports_fails(self) -> None:
        campaign = ScriptedCampaign([(self.OK.format("A.1"), self.FINE)])
        self.assertEqual(campaign.verdicts(["A.1", "A.2"]), {"A.1": "PASS", "A.2": "FAIL"})

    def test_a_guest_which_does_not_boot_fails_everything_left(self) -> None:
        campaign = ScriptedCampaign([("", Outcome(Ending.DIED))])
        self.assertEqual(campaign.verdicts(["A.1", "A.2"]), {"A.1": "FAIL", "A.2": "FAIL"})
        self.assertTrue(campaign.environment.fault)

    def test_a_program_which_runs_nothing_fails_everything(self) -> None:
        campaign = ScriptedCampaign([("preamble: no\n", Outcome(Ending.FINISHED, "6.1.0", 4))])
        self.assertEqual(campaign.verdicts(["A.1", "A.2"]), {"A.1": "FAIL", "A.2": "FAIL"})
        self.assertFalse(campaign.environment.fault)

    def test_a_few_failures_are_repeated_and_reported(self) -> None:
        failed = "[ RUN      ] A.2\n[  FAILED  ] A.2 (1 ms)\n"
        one = Outcome(Ending.FINISHED, "6.1.0", 1)
        for second, expected in ((self.OK.format("A.2"), "PASS"), (failed, "FAIL")):
            boots = [(self.OK.format("A.1") + failed, one)]
            boots.append((second, self.FINE if expected == "PASS" else one))
            campaign = ScriptedCampaign(boots)
            self.assertEqual(campaign.verdicts(["A.1", "A.2"])["A.2"], "FAIL")
            campaign.repeat_failed(["A.1", "A.2"])
            self.assertEqual(campaign.asked[1], ["A.2"])
            verdicts = {case.name: case.verdict.value for case in campaign.environment.cases}
            self.assertEqual(verdicts, {"A.1": "PASS", "A.2": expected})
            lines = list(Summary([campaign.environment], set()).lines())
            self.assertIn(f"  tried again: {expected}", lines)

    def test_many_failures_are_not_tried_again(self) -> None:
        names = [f"A.{index}" for index in range(4)]
        text = "".join(f"[ RUN      ] {name}\n[  FAILED  ] {name} (1 ms)\n" for name in names)
        campaign = ScriptedCampaign([(text, Outcome(Ending.FINISHED, "6.1.0", 1))])
        campaign.run_cases(names)
        campaign.repeat_failed(names)
        self.assertEqual(len(campaign.asked), 1)

    def test_disabled_cases_fail_without_a_boot(self) -> None:
        campaign = ScriptedCampaign([])
        self.assertEqual(campaign.verdicts(["A.DISABLED_1"]), {"A.DISABLED_1": "FAIL"})


class MatrixTest(unittest.TestCase):
    def names(self, *arguments: str) -> list[str]:
        return [cell.name for cell in run.matrix(run.parse_arguments(list(arguments)))]

    def test_matrix(self) -> None:
        self.assertEqual(self.names(), ["6.1 v1", "6.1 v2", "6.12 v2", "6.12 systemd", "newest v2"])
        self.assertEqual(self.names("--kernel", "6.12", "--shell"), ["6.12 v2"])
        self.assertEqual(self.names("--cgroup", "systemd", "--shell"), ["6.12 systemd"])
        self.assertEqual(self.names("--cgroup", "v1"), ["6.1 v1"])
        self.assertEqual(self.names("--kernel", "7.2"), ["newest v2"])
        self.assertEqual(self.names("--kernel", "6.12", "--cgroup", "v1"), ["6.12 v1"])

    def test_required(self) -> None:
        def required(*arguments: str) -> set[str]:
            return run.required_labels(run.parse_arguments(list(arguments)))

        self.assertEqual(required(), {"6.1", "6.12"})
        self.assertIn("newest", required("--kernel", "newest"))
        self.assertIn("newest", required("--require", "7.2"))


if __name__ == "__main__":
    unittest.main()
