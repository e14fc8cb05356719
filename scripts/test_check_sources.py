# SPDX-License-Identifier: Apache-2.0
"""Tests of check_sources.py: which imports and packages of proto files it refuses."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("check_sources.py")


class ProtosTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "scripts").mkdir()
        shutil.copy(SCRIPT, self.folder / "scripts")
        subprocess.run(["git", "init", "--quiet", str(self.folder)], check=True)

    def write(self, name: str, package: str, *lines: str) -> None:
        path = self.folder / "proto" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(['syntax = "proto3";', f"package {package};", *lines, ""]))

    def problems(self) -> list[str]:
        """Of a copy of the script, which checks the tree that it is in."""
        spec = importlib.util.spec_from_file_location(
            "copied_check_sources", self.folder / "scripts/check_sources.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return list(module.protos())

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


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
