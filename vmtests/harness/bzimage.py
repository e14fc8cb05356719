# SPDX-License-Identifier: Apache-2.0
"""Takes the bare vmlinux out of a bzImage.

QEMU starts a vmlinux through its PVH entry point, which leaves out the BIOS,
the real-mode code and the decompressor: the last one alone runs for most of a
second under emulation. Where the extraction fails for whatever reason, the
vmlinuz boots as well, only slower, so failure here is an answer and not an
error.
"""

from __future__ import annotations

import lzma
import struct
import subprocess
import zlib

# Offsets of the boot protocol, Documentation/arch/x86/boot.rst.
_SETUP_SECTS = 0x1F1
_MAGIC = 0x202
_PAYLOAD = 0x248


def payload(image: bytes) -> bytes | None:
    """The compressed kernel inside a bzImage, without the size word appended to it."""
    if image[_MAGIC : _MAGIC + 4] != b"HdrS":
        return None
    setup = ((image[_SETUP_SECTS] or 4) + 1) * 512
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    return image[setup + offset : setup + offset + length - 4]


def extract(image: bytes) -> bytes | None:
    """The ELF file inside a bzImage, or nothing if it cannot be extracted."""
    packed = payload(image)
    if packed is None:
        return None
    try:
        kernel = _decompress(packed)
    except (OSError, lzma.LZMAError, zlib.error, subprocess.SubprocessError):
        return None
    return kernel if kernel is not None and kernel.startswith(b"\x7fELF") else None


def _decompress(packed: bytes) -> bytes | None:
    if packed.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(packed)
    if packed.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return _through("zstd", packed)
    if packed.startswith(b"\x02\x21\x4c\x18"):
        return _through("lz4", packed)
    return None


def _through(tool: str, packed: bytes) -> bytes:
    done = subprocess.run(
        [tool, "-dc"], input=packed, capture_output=True, timeout=60, check=True
    )
    return done.stdout
