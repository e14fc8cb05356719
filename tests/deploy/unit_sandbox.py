#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unit_sandbox.py UNIT PROGRAM ARGUMENT...: runs PROGRAM with the privileges that UNIT leaves it.

Where no systemd runs, this applies the same settings: system calls (the lists of systemd-analyze),
capabilities, no-new-privileges, address families, namespaces, writable executable memory, umask, no
network. A refused system call fails with the unit's error. With FORESTALL_SANDBOX=kill it ends the
process instead (SIGSYS), so that a test detects it."""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
NOT_EQUAL, MASKED_EQUAL = 1, 7
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CLONE_NEWNET = 0x40000000
# Of clone(2): all CLONE_NEW* but CLONE_NEWTIME, which clone() does not take.
NAMESPACES = 0x7E020000
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000

libc = ctypes.CDLL(None, use_errno=True)


class Compare(ctypes.Structure):
    """struct scmp_arg_cmp of libseccomp."""

    _fields_ = [
        ("arg", ctypes.c_uint), ("op", ctypes.c_int),
        ("a", ctypes.c_uint64), ("b", ctypes.c_uint64),
    ]  # fmt: skip


class Unit:
    def __init__(self, path: str) -> None:
        text = Path(path).read_text()
        self.settings = dict(re.findall(r"^([A-Za-z]+)=(.*)$", text, re.MULTILINE))

    def words(self, name: str) -> list[str]:
        return self.settings[name].split()

    def is_on(self, name: str) -> bool:
        return self.settings.get(name) == "yes"


def checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno() or abs(result)
        raise OSError(code, f"{what}: {os.strerror(code)}")


def expand(words: list[str]) -> set[str]:
    """The system calls of a SystemCallFilter, with those of its groups."""
    calls: set[str] = set()
    for word in words:
        if not word.startswith("@"):
            calls.add(word)
            continue
        listed = subprocess.run(
            ["systemd-analyze", "syscall-filter", "--no-pager", word],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        members = [line.strip() for line in listed.splitlines() if line.startswith("    ")]
        calls |= expand([member for member in members if not member.startswith("#")])
    return calls


class Filter:
    def __init__(self, default: int) -> None:
        self.library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self.library.seccomp_init.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(default)))

    def number(self, call: str) -> int:
        return self.library.seccomp_syscall_resolve_name(call.encode())

    def add(self, action: int, call: str, *compares: Compare) -> None:
        number = self.number(call)
        if number < 0:  # of another architecture, or newer than libseccomp
            return
        array = (Compare * len(compares))(*compares)
        checked(
            self.library.seccomp_rule_add_array(
                self.context, ctypes.c_uint32(action), number, len(compares), array
            ),
            f"rule of {call}",
        )

    def load(self) -> None:
        checked(self.library.seccomp_load(self.context), "seccomp_load")


def restrict_calls(unit: Unit, refused: int) -> None:
    allowed = Filter(refused)
    calls = expand(unit.words("SystemCallFilter"))
    # systemd starts the program itself.
    for call in sorted(calls | {"execve", "exit_group"}):
        allowed.add(ALLOW, call)
    allowed.load()


def restrict_arguments(unit: Unit, refused: int) -> None:
    arguments = Filter(ALLOW)
    if unit.is_on("MemoryDenyWriteExecute"):
        both = PROT_WRITE | PROT_EXEC
        arguments.add(refused, "mmap", Compare(2, MASKED_EQUAL, both, both))
        for call in ("mprotect", "pkey_mprotect"):
            arguments.add(refused, call, Compare(2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC))
        arguments.add(refused, "shmat", Compare(2, MASKED_EQUAL, SHM_EXEC, SHM_EXEC))
    if unit.is_on("RestrictNamespaces"):
        for call in ("unshare", "setns"):
            arguments.add(refused, call)
        for bit in range(64):
            flag = 1 << bit
            if flag & NAMESPACES:
                arguments.add(refused, "clone", Compare(0, MASKED_EQUAL, flag, flag))
    if unit.words("RestrictAddressFamilies") == ["AF_UNIX"]:
        arguments.add(refused, "socket", Compare(0, NOT_EQUAL, socket.AF_UNIX, 0))
    arguments.load()


def drop_capabilities(kept: list[str]) -> None:
    header = Path("/usr/include/linux/capability.h").read_text()
    numbers = dict(re.findall(r"^#define (CAP_[A-Z_]+)\s+(\d+)$", header, re.MULTILINE))
    keep = {int(numbers[name]) for name in kept}
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        if capability not in keep:
            checked(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "PR_CAPBSET_DROP")


def main() -> int:
    unit = Unit(sys.argv[1])
    if unit.is_on("PrivateNetwork"):
        checked(libc.unshare(CLONE_NEWNET), "unshare")
    os.umask(int(unit.settings["UMask"], 8))
    drop_capabilities(unit.words("CapabilityBoundingSet"))
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    number = getattr(errno, unit.settings["SystemCallErrorNumber"])
    kills = os.environ.get("FORESTALL_SANDBOX") == "kill"
    refused = KILL_PROCESS if kills else ERRNO | number
    restrict_arguments(unit, refused)
    restrict_calls(unit, refused)
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
