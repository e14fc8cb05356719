# SPDX-License-Identifier: Apache-2.0
"""Chooses kernel modules and the order in which they load.

The guest has no modprobe database: it gets a list of plain .ko files and
inserts them one by one. So the order is worked out here, from modules.dep.
"""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from pathlib import Path

# Swap on zram, block devices to fill and to put file systems on. The
# compressors are not dependencies of zram in every version, yet it needs one;
# nor is the checksum one of ext4, where either is a module.
WANTED = ("lzo", "lzo_rle", "lz4", "zram", "loop", "brd", "crc32c_generic", "ext4")

_SUFFIX = re.compile(r"\.ko(\.xz|\.zst|\.gz)?$")


def module_name(path: str) -> str:
    """The name the kernel gives a module file: dashes become underscores."""
    return _SUFFIX.sub("", path.rsplit("/", 1)[-1]).replace("-", "_")


def parse_dependencies(text: str) -> dict[str, list[str]]:
    """modules.dep as path to paths of what it needs."""
    dependencies: dict[str, list[str]] = {}
    for line in text.splitlines():
        path, colon, needs = line.partition(":")
        if colon:
            dependencies[path.strip()] = needs.split()
    return dependencies


def load_order(dependencies: dict[str, list[str]], wanted: tuple[str, ...]) -> list[str]:
    """Paths of the wanted modules with what they need before them.

    A module that is not listed is built in or does not exist in this version;
    either way there is nothing to load.
    """
    by_name = {module_name(path): path for path in dependencies}
    order: list[str] = []

    def add(path: str) -> None:
        if path in order:
            return
        for need in dependencies.get(path, []):
            add(need)
        order.append(path)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
    return order


def plain_path(path: str) -> str:
    """Where a module is stored in the guest: under its name without compression."""
    return _SUFFIX.sub(".ko", path)


def read_plain(path: Path) -> bytes:
    """A module's code, uncompressed: busybox insmod would not decompress it."""
    packed = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(packed)
    if path.suffix == ".gz":
        return gzip.decompress(packed)
    if path.suffix == ".zst":
        done = subprocess.run(
            ["zstd", "-dc"], input=packed, capture_output=True, timeout=60, check=True
        )
        return done.stdout
    return packed
