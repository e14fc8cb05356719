# SPDX-License-Identifier: Apache-2.0
"""Writes cpio archives in the newc format, which the kernel unpacks at boot.

The cpio tool would copy what is on disk, so device nodes would need root and
every file a staging copy. Archives written here can be concatenated: the
kernel skips the zeros between them and lets later files replace earlier ones.
"""

from __future__ import annotations

import stat
from typing import BinaryIO

BLOCK = 512


class Archive:
    """A newc archive under construction; adds the parents of an entry."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._inode = 0
        self._size = 0
        self._folders: set[str] = set()

    def folder(self, path: str, mode: int = 0o755) -> None:
        if path in self._folders or path in ("", "."):
            return
        self._parents(path)
        self._folders.add(path)
        self._entry(path, stat.S_IFDIR | mode, b"")

    def file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self._parents(path)
        self._entry(path, stat.S_IFREG | mode, content)

    def link(self, path: str, target: str) -> None:
        self._parents(path)
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, path: str, major: int, minor: int) -> None:
        self._parents(path)
        self._entry(path, stat.S_IFCHR | 0o600, b"", (major, minor))

    def finish(self) -> None:
        """Writes the trailer and fills up the last block."""
        self._entry("TRAILER!!!", 0, b"")
        self._write(b"\0" * (-self._size % BLOCK))

    def _parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent:
            self.folder(parent)

    def _entry(
        self, path: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)
    ) -> None:
        self._inode += 1
        name = path.encode() + b"\0"
        fields = (
            self._inode,
            mode,
            0,  # uid
            0,  # gid
            1,  # links
            0,  # time: the same input gives the same archive
            len(content),
            0,  # device the archive came from
            0,
            *device,
            len(name),
            0,  # checksum, unused in this variant
        )
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._write(_padded(header + name))
        self._write(_padded(content))

    def _write(self, content: bytes) -> None:
        self._output.write(content)
        self._size += len(content)


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)
