# SPDX-License-Identifier: Apache-2.0
"""Tests of check_sources.py: imports of proto files, names of types, and words."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("check_sources.py")


class TreeTest(unittest.TestCase):
    RULE = ""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "scripts").mkdir()
        shutil.copy(SCRIPT, self.folder / "scripts")
        subprocess.run(["git", "init", "--quiet", str(self.folder)], check=True)

    def write_lines(self, name: str, *lines: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))

    def problems(self) -> list[str]:
        """Of a copy of the script, which checks the tree that it is in."""
        spec = importlib.util.spec_from_file_location(
            "copied_check_sources", self.folder / "scripts/check_sources.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return list(getattr(module, self.RULE)())


class ProtosTest(TreeTest):
    RULE = "protos"

    def write(self, name: str, package: str, *lines: str) -> None:
        self.write_lines(f"proto/{name}", 'syntax = "proto3";', f"package {package};", *lines)

    def test_accepts_imports_of_stable_messages(self) -> None:
        imports = ['import "forestall/v1/pod.proto";', 'import "google/protobuf/timestamp.proto";']
        self.write("forestall/v1/record.proto", "forestall.v1", *imports)
        self.write("forestall/internal/top.proto", "forestall.internal", *imports,
                   'import "forestall/internal/picture.proto";')
        self.assertEqual(self.problems(), [])

    def test_refuses_a_stable_message_that_imports_an_internal_one(self) -> None:
        for statement in ("import", "import public", "import weak", "  import "):
            for quote in ('"', "'"):
                line = f"{statement} {quote}forestall/internal/top.proto{quote};"
                self.write("forestall/v1/record.proto", "forestall.v1", line)
                self.assertEqual(self.problems(), [
                    "proto/forestall/v1/record.proto:3: "
                    "forestall.v1 may not import forestall/internal/top.proto"], line)

    def test_refuses_an_import_that_is_neither_ours_nor_protobufs(self) -> None:
        self.write("forestall/internal/top.proto", "forestall.internal",
                   'import "runtime/v1/api.proto";')
        self.assertEqual(self.problems(), [
            "proto/forestall/internal/top.proto:3: "
            "forestall.internal may not import runtime/v1/api.proto"])

    def test_refuses_a_package_that_is_not_the_folders(self) -> None:
        self.write("forestall/v1/record.proto", "forestall.internal")
        self.write("forestall/internal/top.proto", "forestall.v1")
        self.assertCountEqual(self.problems(), [
            "proto/forestall/v1/record.proto:1: its folder requires package forestall.v1",
            "proto/forestall/internal/top.proto:1: "
            "its folder requires package forestall.internal"])

    def test_ignores_comments_and_the_protos_of_others(self) -> None:
        self.write("forestall/v1/record.proto", "forestall.v1",
                   '// import "forestall/internal/top.proto";')
        self.write("runtime/v1/api.proto", "runtime.v1", 'import "gogoproto/gogo.proto";')
        self.assertEqual(self.problems(), [])


class TypeNamesTest(TreeTest):
    RULE = "type_names"

    def test_accepts_names_that_belong_to_their_class_or_source_file(self) -> None:
        self.write_lines("userspace/base/ring.h", "class Ring {", "  struct Entry {", "  };",
                         "  struct Options {", "  };", "};", "class Options;")
        self.write_lines("userspace/model/log.h", "class Log {", "  struct Entry {", "  };", "};")
        self.write_lines("userspace/cli/options.h", "struct Options {", "};", "class Log;")
        self.write_lines("userspace/cli/log.cc", "struct Entry {", "};")
        self.assertEqual(self.problems(), [])

    def test_refuses_a_second_type_with_the_name_of_a_headers_type(self) -> None:
        self.write_lines("userspace/base/ring.h", "class Ring final : public Base {", "};")
        self.write_lines("userspace/cli/ring.cc", "enum class Ring : int { a, b };")
        self.write_lines("userspace/model/log.h", "class Log {", "  struct Ring {", "  };", "};")
        self.write_lines("userspace/top/ring.h", "struct Ring { int a; };")
        self.assertCountEqual(
            [each.split(": ")[0] for each in self.problems()],
            ["userspace/base/ring.h:1", "userspace/cli/ring.cc:1", "userspace/model/log.h:2"])


class GlossaryTest(TreeTest):
    RULE = "glossary"

    def write_glossary(self, *rows: str) -> None:
        self.write_lines("ARCHITECTURE.md", "# Architecture", "", "## Glossary", "",
                         "| word | meaning |", "|---|---|", "| usage line, wake | `not.Read` |", "",
                         "| family | is | examples |", "|---|---|---|",
                         "| `…Source`, `…Entry` | wakes | `DiskSource` |", "",
                         "| folder | its other types |", "|---|---|", *rows, "",
                         "## Code map", "", "| base | `Ignored` |")
        self.write_lines("userspace/base/disk.h", "class DiskSource {", "  struct Nested {", "  };",
                         "};", "class Unfinished;")

    def test_accepts_families_words_names_and_beginnings(self) -> None:
        self.write_glossary("| base, model | `Clock`; `Pod…` |")
        self.write_lines("userspace/model/time.h", "struct Clock {", "};",
                         "struct UsageLine {", "};",
                         "struct DiskSources {", "};", "struct DiskEntry {", "};",
                         "struct PodFacts {", "};", "struct Pod {", "};")
        self.write_lines("userspace/model/time.cc", "struct OfOneFile {", "};")
        self.assertEqual(self.problems(), [])

    def test_refuses_a_type_without_a_row(self) -> None:
        self.write_glossary("| model | `Pod…` |")
        self.write_lines("userspace/model/pod.h", "struct PodFacts {", "};")
        self.write_lines("userspace/base/clock.h", "enum class Clock { a };", "struct PodClock {",
                         "};", "struct Source {", "};", "struct Resource {", "};")
        self.assertEqual(self.problems(), [
            f"userspace/base/clock.h:{line}: {name} has no row in ARCHITECTURE.md, Glossary"
            for line, name in ((1, "Clock"), (2, "PodClock"), (4, "Source"), (6, "Resource"))])

    def test_refuses_a_row_without_its_type(self) -> None:
        self.write_glossary("| model | `Removed`, `Old…`, `DiskSource` |")
        self.write_lines("userspace/model/pod.h", "class Forward;")
        self.assertEqual(self.problems(), [
            f"ARCHITECTURE.md:15: {name} is not a type of model"
            for name in ("DiskSource", "Old…", "Removed")])


class WordsTest(TreeTest):
    RULE = "words"

    def test_refuses_words_for_persons_in_comments_and_strings(self) -> None:
        self.write_lines("userspace/base/a.cc", "// looks up the name", "int who = ask();",
                         "// The kernel says no.", 'const char* a = "meets it";', "// who acts")
        self.assertEqual([each.split(" (")[0] for each in self.problems()], [
            "userspace/base/a.cc:3: 'says'", "userspace/base/a.cc:4: 'meets'",
            "userspace/base/a.cc:5: 'who'"])


class TestNamesTest(TreeTest):
    RULE = "test_names"

    def test_refuses_words_for_persons_in_names_of_tests(self) -> None:
        self.write_lines("tests/a_test.cc", "TEST(Suite, ShowsTheAsking) {}",
                         "TEST_F(SaysTest, IsUnknownAndEssays) {}", "TEST_F(Suite,",
                         "       ReportsWhatTheKernelSays) {}")
        self.assertEqual([each.split(" (")[0] for each in self.problems()], [
            "tests/a_test.cc:1: 'Asking' in ShowsTheAsking",
            "tests/a_test.cc:3: 'Says' in ReportsWhatTheKernelSays"])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
