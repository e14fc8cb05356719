#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""image_test.py BUILD: makes the container image of a build tree, and uses it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import tarfile
import tempfile
import termios
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = TOP / "scripts/image.sh"
BUILD = ""
SIZE_MAX = 60 * 2**20

described = importlib.util.spec_from_file_location("image", TOP / "scripts/deploy/image.py")
image = importlib.util.module_from_spec(described)
described.loader.exec_module(image)


def run(*command: str, **more) -> str:
    ran = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         **more)
    if ran.returncode != 0:
        raise AssertionError(f"{command} exited with {ran.returncode}: {ran.stdout}")
    return ran.stdout


class Image:
    """The image as a runtime reads it: by digest, from index to layer."""

    def __init__(self, path: pathlib.Path, root: pathlib.Path) -> None:
        with tarfile.open(path) as tar:
            self.blobs = {name.removeprefix("blobs/sha256/"): tar.extractfile(name).read()
                          for name in tar.getnames() if name.startswith("blobs/")}
            index = json.load(tar.extractfile("index.json"))
        manifest = json.loads(self.blob(index["manifests"][0]["digest"]))
        self.config = json.loads(self.blob(manifest["config"]["digest"]))
        layer = self.blob(manifest["layers"][0]["digest"])
        unpacked = image.gzip.decompress(layer)
        digest = f"sha256:{hashlib.sha256(unpacked).hexdigest()}"
        assert digest == self.config["rootfs"]["diff_ids"][0], digest
        with tarfile.open(fileobj=image.io.BytesIO(unpacked)) as tar:
            self.entries = {each.name: each for each in tar.getmembers()}
            # Debian 12's Python has no filters (3.11.4); the archive is our own.
            filters = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            tar.extractall(root, **filters)
        self.root = root

    def blob(self, digest: str) -> bytes:
        content = self.blobs[digest.removeprefix("sha256:")]
        assert hashlib.sha256(content).hexdigest() == digest.removeprefix("sha256:")
        return content

    def command(self, *command: str) -> list[str]:
        """`command` in the image, in a mount namespace that ends with it."""
        script = ("mount -t proc proc $0/proc && mount --rbind /sys $0/sys && exec env -i "
                  f"{' '.join(self.config['config']['Env'])} TERM=xterm /usr/sbin/chroot $0 \"$@\"")
        return ["unshare", "--mount", "--net", "sh", "-c", script, str(self.root), *command]

    def run(self, *command: str) -> str:
        return run(*self.command(*command))


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.folder = pathlib.Path(scratch)
        cls.file = cls.folder / "image.tar"
        cls.printed = run(str(SCRIPT), "--build", BUILD, "--output", str(cls.file))
        cls.image = Image(cls.file, cls.folder / "root")

    def test_same_input_gives_the_same_bytes(self) -> None:
        again = self.folder / "elsewhere/image.tar"
        build = self.folder / "elsewhere/tmp"
        build.mkdir(parents=True)
        run(str(SCRIPT), "--build", BUILD, "--output", str(again), umask=0o077,
            env={**os.environ, "TMPDIR": str(build)})
        self.assertEqual(hashlib.sha256(again.read_bytes()).hexdigest(),
                         hashlib.sha256(self.file.read_bytes()).hexdigest())

    def test_has_no_shell_and_only_the_programs(self) -> None:
        executables = {name for name, entry in self.image.entries.items()
                       if entry.isreg() and entry.mode & 0o111}
        programs = {each for each in executables if "ld-linux" not in each}
        self.assertEqual(len(executables - programs), 1)
        installed = self.folder / "installed"
        run("cmake", "--install", BUILD, "--prefix", "/usr/local",
            env={**os.environ, "DESTDIR": str(installed)})
        expected = {str(path.relative_to(installed))
                    for folder in ("sbin", "libexec/forestall")
                    for path in (installed / "usr/local" / folder).iterdir()}
        self.assertEqual(programs, {each for each in expected if not each.endswith("-plot")})
        self.assertIn("usr/local/libexec/forestall/forestall-top", programs)

    def test_belongs_to_root_and_is_writable_by_root_only(self) -> None:
        for name, entry in self.image.entries.items():
            self.assertEqual((entry.uid, entry.gid), (0, 0), name)
            if not entry.issym() and name != "tmp":
                self.assertEqual(entry.mode & 0o7022, 0, name)

    def test_is_small(self) -> None:
        self.assertLess(sum(entry.size for entry in self.image.entries.values()), SIZE_MAX)

    def test_lists_its_packages(self) -> None:
        listed = (self.image.root / "usr/share/forestall/packages").read_text().splitlines()
        self.assertTrue(listed[0].startswith("forestall "))
        self.assertEqual(listed[1:], self.printed.splitlines()[:-1])
        for line in listed[1:]:
            name, version = line.split(" ")
            self.assertEqual(run("dpkg-query", "-W", "-f", "${Version}\n", name).split("\n")[0],
                             version)
            status = (self.image.root / "var/lib/dpkg/status.d" / name).read_text()
            self.assertIn(f"Version: {version}\n", status)
            self.assertTrue((self.image.root / "usr/share/doc" / name / "copyright").is_file())
        self.assertIn("libc6", {line.split(" ")[0] for line in listed})

    def test_programs_run_with_only_the_image(self) -> None:
        version = (self.image.root / "usr/share/forestall/packages").read_text().split()[1]
        program = self.image.config["config"]["Entrypoint"][0]
        self.assertIn(version, self.image.run(program, "--version"))
        self.assertIn("memory.available", self.image.run(program, "signals"))
        self.assertIn("pidfd", self.image.run(program, "doctor", "--output", "text"))

    def test_top_finds_its_terminal_and_characters(self) -> None:
        terminal, inside = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
        program = self.image.config["config"]["Entrypoint"][0]
        with subprocess.Popen(self.image.command(program, "top", "--no-agent"), stdin=inside,
                              stdout=inside, stderr=inside, start_new_session=True) as top:
            os.close(inside)
            drawn = b""
            sequence = re.compile(rb"\x1b[\[(][0-9;]*[A-Za-z]")
            while "\u2500 workloads \u2500".encode() not in sequence.sub(b"", drawn):
                self.assertTrue(select.select([terminal], [], [], 60)[0], drawn)
                self.assertLess(len(drawn), 2**16, drawn)
                drawn += os.read(terminal, 65536)
            os.write(terminal, b"q")
            with contextlib.suppress(OSError):  # EIO: the program closed the terminal
                while os.read(terminal, 65536):
                    pass
            self.assertEqual(top.wait(timeout=60), 0, drawn)
        os.close(terminal)

    def test_refuses_files_that_are_not_as_their_package_has_them(self) -> None:
        own = self.folder / "libown.so.1"
        own.write_bytes(b"x")
        packages = image.Packages()
        with self.assertRaisesRegex(image.ImageError, "of no installed package"):
            packages.owner(str(own))
        package, listed = packages.owner(os.path.realpath("/lib64/ld-linux-x86-64.so.2"))
        package.check(listed)
        package.sums[listed.lstrip("/")] = "0" * 32
        with self.assertRaisesRegex(image.ImageError, "differs from its package libc6"):
            package.check(listed)

    def test_dockerfile_has_the_same_content(self) -> None:
        """Without docker, podman or buildah this runs the Dockerfile's command, and compares."""
        text = (TOP / "scripts/deploy/Dockerfile").read_text()
        build, final = re.split(r"^FROM scratch$", text, flags=re.MULTILINE)
        made_by = re.search(r"^RUN .*&& scripts/image\.sh --tree (\S+)$", build, re.MULTILINE)
        self.assertEqual(re.findall(r"^(?:COPY|ADD) .*$", final, re.MULTILINE),
                         [f"COPY --from=build {made_by[1]}/ /"])
        tree = self.folder / "docker"
        run(str(SCRIPT), "--tree", str(tree), "--build", BUILD)
        made = {str(path.relative_to(tree)): path for path in tree.rglob("*")}
        self.assertEqual(sorted(made), sorted(self.image.entries))
        for name, path in made.items():
            if path.is_file() and not path.is_symlink():
                self.assertEqual(path.read_bytes(), (self.image.root / name).read_bytes(), name)
        config = self.image.config["config"]
        self.assertEqual(re.findall(r"^ENV (.*)$", final, re.MULTILINE), config["Env"])
        self.assertEqual(json.loads(re.search(r"^ENTRYPOINT (.*)$", final, re.MULTILINE)[1]),
                         config["Entrypoint"])
        self.assertEqual(re.search(r"^WORKDIR (.*)$", final, re.MULTILINE)[1],
                         config["WorkingDir"])
        self.assertNotRegex(final, r"(?m)^(RUN|USER|CMD|VOLUME)")


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    if os.geteuid() != 0:
        print("not applicable: needs root (chroot)")
        sys.exit(77)
    unittest.main()
