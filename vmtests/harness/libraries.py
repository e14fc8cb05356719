# SPDX-License-Identifier: Apache-2.0
"""Finds the shared libraries a program needs, with ldd.

The guest has no ld.so.cache. Libraries named without a slash are therefore
put where Debian's loader evaluations by default, from any folder on
this machine; a name with a slash (the loader itself) has to stay where it is.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

GUEST_FOLDER = "lib/x86_64-linux-gnu"


class MissingLibrary(Exception):
    """A program would not start in the guest, as it does not start here."""


def parse_ldd(text: str) -> dict[str, str]:
    """ldd's output as path in the guest to path on this machine."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("linux-vdso"):
            continue
        if "=>" in words:
            name, target = words[0], words[words.index("=>") + 1]
            if target == "not":
                raise MissingLibrary(f"{name} is not found")
            guest = name.lstrip("/") if "/" in name else f"{GUEST_FOLDER}/{name}"
            found[guest] = target
        elif words[0].startswith("/"):
            found[words[0].lstrip("/")] = words[0]
    return found


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needed_by(program: Path) -> dict[str, Path]:
    """Path in the guest to the real file, for every library of a program."""
    if not is_elf(program):
        return {}
    done = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        # ldd refuses static programs, which need nothing.
        if "not a dynamic executable" in done.stdout + done.stderr:
            return {}
        raise MissingLibrary(f"ldd {program}: {done.stderr.strip()}")
    try:
        libraries = parse_ldd(done.stdout)
    except MissingLibrary as error:
        raise MissingLibrary(f"{program}: {error}") from error
    return {guest: Path(target).resolve() for guest, target in libraries.items()}
