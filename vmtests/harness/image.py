# SPDX-License-Identifier: Apache-2.0
"""Builds the initramfs of one boot from three archives laid end to end.

base     busybox, folders, kernel modules: the same for every run, so cached
payload  the programs under test with their libraries: once per run
plan     what this boot has to do: once per boot, and tiny

It stays uncompressed because under emulation decompressing costs the guest
more than reading costs QEMU.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from . import libraries, modules
from .cpio import Archive
from .kernels import Kernel

INIT = Path(__file__).with_name("guest_init.sh")
BIN = "forestall/bin"
# Debug sections are useless in the guest and most of a program's size; small
# programs are not worth starting strip for.
STRIP_ABOVE = 4 << 20

# Tests make filesystems to fill; busybox has no ext4.
MKFS = "mkfs.ext4"

_FOLDERS = ("dev", "proc", "sys", "tmp", "run", "root", "etc", "var/log", "lib/modules")
_LINKS = {"sbin": "bin", "usr/bin": "../bin", "usr/sbin": "../bin", "usr/lib": "../lib"}
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost forestall-vm\n::1 localhost\n",
    "hostname": "forestall-vm\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "machine-id": "00000000000000000000000000000001\n",
}


class ImageError(Exception):
    """Something that belongs into the guest is missing on this machine."""


@dataclass(frozen=True)
class Payload:
    """Programs and files a run takes into the guest."""

    programs: tuple[Path, ...] = ()
    files: tuple[tuple[Path, str], ...] = ()


@dataclass(frozen=True)
class Plan:
    """What one boot has to do; becomes shell assignments which /init reads."""

    token: str
    kernel: str
    cgroup: str
    mode: str  # cases, command or shell
    filter: str = ""
    command: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def script(self) -> str:
        exports = {
            "FORESTALL_BIN": f"/{BIN}/forestall",
            "FORESTALL_TEST_ENV": f"vm:{self.kernel}:{self.cgroup}",
            **self.environment,
        }
        assignments = {
            "TOKEN": self.token,
            "CGROUP": self.cgroup,
            "MODE": self.mode,
            "FILTER": self.filter,
            "COMMAND": self.command,
        }
        lines = [f"{name}={shlex.quote(value)}" for name, value in assignments.items()]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
        return "\n".join(lines) + "\n"


def base(kernel: Kernel) -> Path:
    """The cached archive which only depends on the kernel and on busybox."""
    busybox = find_busybox()
    dependencies = modules.parse_dependencies((kernel.modules / "modules.dep").read_text())
    order = modules.load_order(dependencies, modules.WANTED)
    # The text of this file is part of the key, as it defines the contents.
    key = hashlib.sha256(Path(__file__).read_bytes() + busybox.read_bytes())
    key.update("\n".join(order).encode())
    path = kernel.folder / f"base-{key.hexdigest()[:16]}.cpio"
    if not path.exists():
        # Guests start side by side, so each writer needs a name of its own.
        with tempfile.NamedTemporaryFile(dir=kernel.folder, delete=False) as output:
            _write_base(Archive(output), kernel, busybox, order)
        Path(output.name).rename(path)
    return path


def payload(load: Payload, folder: Path) -> Path:
    """The archive of the programs under test."""
    path = folder / "payload.cpio"
    present: dict[str, Path] = {f"bin/{MKFS}": _mkfs()}
    for program in load.programs:
        present[f"{BIN}/{program.name}"] = program
    for source, target in load.files:
        present.update(_files_below(source, target.strip("/")))
    needed: dict[str, Path] = {}
    for source in present.values():
        needed.update(libraries.needed_by(source))
    with path.open("wb") as output:
        archive = Archive(output)
        for target, source in {**needed, **present}.items():
            archive.file(target, _stripped(source, folder), 0o755 if _runs(source) else 0o644)
        archive.finish()
    return path


def assemble(parts: list[Path], plan: Plan, target: Path) -> None:
    """Writes base, payloads and plan of one boot into the file QEMU reads."""
    with target.open("wb") as output:
        for part in parts:
            with part.open("rb") as archive:
                shutil.copyfileobj(archive, output, 1 << 20)
        tail = Archive(output)
        tail.file("init", INIT.read_bytes(), 0o755)
        tail.file("vmtests/plan.sh", plan.script().encode())
        tail.finish()


def find_busybox() -> Path:
    found = shutil.which("busybox")
    if found is None or libraries.needed_by(Path(found)):
        raise ImageError("a static busybox is needed (package busybox-static)")
    return Path(found)


def _mkfs() -> Path:
    found = shutil.which(MKFS, path="/usr/sbin:/sbin")
    if found is None:
        raise ImageError(f"{MKFS} is needed (package e2fsprogs)")
    return Path(found)


def _write_base(archive: Archive, kernel: Kernel, busybox: Path, order: list[str]) -> None:
    for folder in _FOLDERS:
        archive.folder(folder)
    for path, target in _LINKS.items():
        archive.link(path, target)
    # The kernel opens the console before devtmpfs is there.
    archive.character_device("dev/console", 5, 1)
    archive.character_device("dev/null", 1, 3)
    for name, content in _ETC.items():
        archive.file(f"etc/{name}", content.encode())
    archive.file("bin/busybox", busybox.read_bytes(), 0o755)
    for applet in _applets(busybox):
        archive.link(f"bin/{applet}", "busybox")
    for path in order:
        name = modules.plain_path(path).rsplit("/", 1)[-1]
        archive.file(f"vmtests/modules/{name}", modules.read_plain(kernel.modules / path))
    names = [modules.plain_path(path).rsplit("/", 1)[-1] for path in order]
    archive.file("vmtests/modules/order", "".join(f"{name}\n" for name in names).encode())
    archive.finish()


def _applets(busybox: Path) -> list[str]:
    done = subprocess.run(
        [str(busybox), "--list"], capture_output=True, text=True, timeout=10, check=True
    )
    return [name for name in done.stdout.split() if name != "busybox"]


def _files_below(source: Path, target: str) -> dict[str, Path]:
    if not source.exists():
        raise ImageError(f"{source} does not exist")
    if not source.is_dir():
        return {target: source}
    return {
        f"{target}/{path.relative_to(source)}": path
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }


def _runs(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o111)


def _stripped(source: Path, folder: Path) -> bytes:
    tool = shutil.which("strip")
    if tool is None or source.stat().st_size <= STRIP_ABOVE or not libraries.is_elf(source):
        return source.read_bytes()
    target = folder / "stripped"
    done = subprocess.run(
        [tool, "--strip-debug", "-o", str(target), str(source)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        return source.read_bytes()
    content = target.read_bytes()
    target.unlink()
    return content
