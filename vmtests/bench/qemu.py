# SPDX-License-Identifier: Apache-2.0
"""One machine: its command line, its monitor, saving and resuming it.

Guest time is counted in instructions (-icount), one nanosecond each, plus real time while every
CPU is idle, so the load of this host does not matter. The guest writes to no disk, so a file of
RAM and devices contains the whole machine."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from harness.guest import QEMU, Fleet

COMMAND_LINE = (
    "console=ttyS0 loglevel=4 panic=-1 oops=panic psi=1 no_timer_check tsc=reliable "
    "clocksource=tsc cryptomgr.notests systemd.show_status=0 systemd.unified_cgroup_hierarchy=1 "
    # OOM reports list every process, and a fork bomb has many.
    "log_buf_len=4M"
)
# Each round of a string instruction counts as one: with these two features Linux would clear memory
# byte by byte, 4 us a page, which no real CPU needs.
CPU = "max,-erms,-fsrm"
# The speed of a small cloud disk.
DISK_BYTES_PER_SECOND = 125 << 20
DISK_OPERATIONS_PER_SECOND = 3000


class MachineError(Exception):
    """A machine did not do what was requested; the text has what it did instead."""


@dataclass(frozen=True)
class Hardware:
    """The booted machine; all of it is part of a saved machine's key."""

    kernel: Path
    initramfs: Path
    disks: tuple[Path, ...]  # in the order in which they become vda, vdb, ...
    memory_mib: int

    def arguments(self) -> list[str]:
        line = [
            "-M", "pc,usb=off,vmport=off,smbus=off,hpet=off",
            "-accel", "tcg", "-icount", "shift=0,sleep=on", "-rtc", "base=2026-01-01,clock=vm",
            "-cpu", CPU, "-smp", "2", "-m", str(self.memory_mib),
            "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", str(self.kernel), "-initrd", str(self.initramfs), "-append", COMMAND_LINE,
            "-device", "virtio-serial-pci",
            "-chardev", "stdio,id=bench,signal=off",
            "-device", "virtserialport,chardev=bench,name=bench",
        ]  # fmt: skip
        for number, disk in enumerate(self.disks):
            line += [
                "-drive", f"file={disk},format=raw,if=none,id=disk{number},readonly=on,"
                f"throttling.bps-total={DISK_BYTES_PER_SECOND},"
                f"throttling.iops-total={DISK_OPERATIONS_PER_SECOND}",
                "-device", f"virtio-blk-pci,drive=disk{number}",
            ]  # fmt: skip
        return line


class Machine:
    """A running QEMU: lines to and from the guest, commands to the monitor."""

    def __init__(
        self, fleet: Fleet, hardware: Hardware, folder: Path, resume: Path | None = None
    ) -> None:
        self._fleet = fleet
        self._buffer = b""
        folder.mkdir(parents=True, exist_ok=True)
        monitor = folder / "monitor"
        monitor.unlink(missing_ok=True)
        command = [
            *_leash(), QEMU, *hardware.arguments(),
            "-chardev", f"file,id=console,path={folder / 'console.log'}",
            "-serial", "chardev:console",
            "-qmp", f"unix:{monitor},server=on,wait=off",
        ]  # fmt: skip
        if resume is not None:
            command += ["-incoming", f"exec:cat '{resume}'"]
        self._errors = folder / "qemu-errors.log"
        self.process = fleet.start(command, subprocess.PIPE, subprocess.PIPE, self._errors)
        try:
            self._monitor = _Monitor(monitor, self._is_alive)
        except BaseException:
            self.end()
            raise
        if resume is not None:
            self._await_status({"paused"}, {"inmigrate"}, 300)
            self._monitor.ask("cont")

    def end(self) -> None:
        self._fleet.end(self.process)

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def lines(self, bound_seconds: float):
        """The guest's output, line by line, until it ends or time is up."""
        assert self.process.stdout is not None
        until = time.monotonic() + bound_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, until - time.monotonic())):
                chunk = os.read(self.process.stdout.fileno(), 65536)
                if not chunk:
                    raise MachineError(f"the guest died: {self._complaint()}")
                *lines, self._buffer = (self._buffer + chunk).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace").rstrip("\r")
        raise MachineError(f"not done after {bound_seconds:.0f} s of this host's time")

    def save(self, target: Path) -> None:
        """Stops the machine permanently and writes its state to a file."""
        partial = target.with_suffix(".partial")
        self._monitor.ask("stop")
        self._monitor.ask("migrate-set-parameters", {"max-bandwidth": 1 << 40})
        self._monitor.ask("migrate", {"uri": f"exec:cat > '{partial}'"})
        until = time.monotonic() + 600
        while time.monotonic() < until:
            state = self._monitor.ask("query-migrate").get("status")
            if state == "completed":
                partial.rename(target)
                return
            if state == "failed":
                break
            time.sleep(0.2)  # the monitor must be polled: 7.2 sends no event by default
        raise MachineError(f"the machine could not be saved: {self._complaint()}")

    def _await_status(self, wanted: set[str], meanwhile: set[str], seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            status = self._monitor.ask("query-status").get("status")
            if status in wanted:
                return
            if status not in meanwhile:
                raise MachineError(f"the machine is {status}")
            time.sleep(0.1)
        raise MachineError("the machine could not be resumed in time")

    def _is_alive(self) -> None:
        if self.process.poll() is not None:
            raise MachineError(f"{QEMU} ended: {self._complaint()}")

    def _complaint(self) -> str:
        text = self._errors.read_text(errors="replace").strip()
        return text.splitlines()[-1] if text else "it printed nothing"


class _Monitor:
    """QEMU's machine protocol: one JSON object a line."""

    def __init__(self, path: Path, still_there) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._still_there = still_there
        until = time.monotonic() + 30
        while True:
            still_there()
            try:
                self._socket.connect(str(path))
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        self._file = self._socket.makefile("rw", encoding="utf-8")
        self._file.readline()  # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command: str, arguments: dict | None = None) -> dict:
        message: dict = {"execute": command}
        if arguments:
            message["arguments"] = arguments
        self._file.write(json.dumps(message) + "\n")
        self._file.flush()
        while True:
            line = self._file.readline()
            if not line:
                self._still_there()
                raise MachineError(f"{command}: the monitor is gone")
            answer = json.loads(line)
            if "error" in answer:
                raise MachineError(f"{command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"] if isinstance(answer["return"], dict) else {}


def _leash() -> list[str]:
    """If the bench is killed, the kernel kills QEMU as well."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
