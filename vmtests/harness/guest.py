# SPDX-License-Identifier: Apache-2.0
"""One QEMU process: starts it, follows its output, and ends it at its time limit.

Emulated (TCG), because the test machines have no KVM. The second serial port is QEMU's standard
output, so following it needs no polling of a file."""

from __future__ import annotations

import enum
import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

QEMU = "qemu-system-x86_64"
# From the last line to the end of the process; a guest that takes longer hangs.
POWER_OFF_SECONDS = 10.0

# The timer and clock settings skip calibration that is useless under emulation; a panic or an oops
# ends the machine at once (with -no-reboot).
# init_on_alloc: Debian's kernels fill each page with zeros twice, which an emulator does slowly.
# mitigations: they replace each indirect call by several, for flaws that no emulated CPU has.
KERNEL_COMMAND_LINE = (
    "console=ttyS0 loglevel=7 panic=-1 oops=panic psi=1 "
    "no_timer_check tsc=reliable clocksource=tsc cryptomgr.notests init_on_alloc=0 "
    "mitigations=off audit=0 apparmor=0"
)
# Left out is what costs an emulator more than it would cost a CPU. erms, fsrm: bytes are copied one
# by one. la57: one more level of page tables. smap: each access to user memory changes the mode of
# the translated code. pku: each switch of processes changes one more register.
CPU = "max,-erms,-fsrm,-la57,-smap,-pku"


class Ending(enum.Enum):
    """How a guest ended."""

    FINISHED = "finished"
    UNFIT = "unfit"
    DIED = "died"
    SILENT = "took too long"
    STOPPED = "stopped"


@dataclass
class Outcome:
    """What is known about a guest which has ended."""

    ending: Ending
    release: str = ""  # empty: it did not reach the plan
    status: int = -1
    detail: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Machine:
    """What to boot, and for how long at most."""

    kernel: Path
    initramfs: Path
    folder: Path  # console.log and results.log go here
    memory_mib: int
    cpus: int
    token: str
    bound_seconds: float

    @property
    def console(self) -> Path:
        return self.folder / "console.log"

    @property
    def results(self) -> Path:
        return self.folder / "results.log"


class Fleet:
    """Every running QEMU, so that an interrupt can end exactly these."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.stopping = False

    def start(
        self, command: list[str], stdin: int | None, stdout: int | None, stderr: Path
    ) -> subprocess.Popen[bytes]:
        with self._lock, stderr.open("wb") as errors:
            if self.stopping:
                raise InterruptedError
            # A session of its own keeps the terminal's Ctrl-C away from QEMU.
            process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=errors, start_new_session=True
            )
            self._processes.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kills a process if it still runs, and drops it from the list."""
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        with self._lock:
            self._processes.discard(process)

    def stop(self) -> None:
        with self._lock:
            self.stopping = True
            for process in self._processes:
                process.send_signal(signal.SIGKILL)


def new_token() -> str:
    """Marks the lines of /init; random, so that no case can print one by accident."""
    return f"@@vmtests-{secrets.token_hex(8)}@@"


def command_line(machine: Machine) -> list[str]:
    # If the harness is killed, the kernel kills QEMU as well.
    setpriv = shutil.which("setpriv")
    leash = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    return [
        *leash, QEMU,
        "-M", "pc,usb=off,vmport=off,smbus=off,hpet=off",
        "-accel", "tcg,thread=multi", "-cpu", CPU, "-smp", str(machine.cpus),
        "-m", str(machine.memory_mib),
        "-nodefaults", "-display", "none", "-no-reboot",
        "-chardev", f"file,id=console,path={_escaped(machine.console)}",
        "-serial", "chardev:console",
        "-chardev", "stdio,id=results,signal=off", "-serial", "chardev:results",
        "-kernel", str(machine.kernel), "-initrd", str(machine.initramfs),
        "-append", KERNEL_COMMAND_LINE,
    ]  # fmt: skip


def _escaped(path: Path) -> str:
    """QEMU splits options at commas; a doubled one stands for itself."""
    return str(path).replace(",", ",,")


class Follower:
    """Splits the results stream into lines and keeps /init's own apart."""

    def __init__(self, token: str, on_line: Callable[[str], None]) -> None:
        self._line_of_init = re.compile(rf"^{re.escape(token)} (\w+) ?(.*)$")
        self._on_line = on_line
        self._partial = b""
        self.outcome = Outcome(Ending.DIED)
        self.done = False

    def take(self, chunk: bytes) -> None:
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._line(line)

    def flush(self) -> None:
        if self._partial:
            self._line(self._partial)
            self._partial = b""

    def _line(self, raw: bytes) -> None:
        text = raw.decode(errors="replace").rstrip("\r")
        match = self._line_of_init.match(text)
        if match is None:
            self._on_line(text)
        elif match[1] == "ready":
            self.outcome.release = match[2]
        elif match[1] == "exit":
            self.outcome.ending, self.outcome.status = Ending.FINISHED, int(match[2])
            self.done = True
        elif match[1] == "unfit":
            self.outcome.ending, self.outcome.detail = Ending.UNFIT, match[2]
            self.done = True


def run(
    fleet: Fleet,
    machine: Machine,
    on_line: Callable[[str], None],
    deadline: Callable[[], float],
) -> Outcome:
    """Boots a guest and follows it to its end.

    `deadline` is evaluated after every piece of output: the limit of a case restarts with each
    case, the limit of the machine does not."""
    begun = time.monotonic()
    follower = Follower(machine.token, on_line)
    process = fleet.start(
        command_line(machine),
        subprocess.DEVNULL,
        subprocess.PIPE,
        machine.folder / "qemu-errors.log",
    )
    try:
        _follow(process, machine, follower, lambda: min(deadline(), begun + machine.bound_seconds))
    finally:
        cpu_seconds = _cpu_seconds(process.pid)
        fleet.end(process)
    outcome = follower.outcome
    outcome.seconds = time.monotonic() - begun
    outcome.cpu_seconds = cpu_seconds
    if fleet.stopping:
        outcome.ending = Ending.STOPPED
    if outcome.ending is Ending.DIED:
        outcome.detail = _qemu_complaint(machine)
    return outcome


def _follow(
    process: subprocess.Popen[bytes],
    machine: Machine,
    follower: Follower,
    deadline: Callable[[], float],
) -> None:
    assert process.stdout is not None
    with machine.results.open("wb") as log, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        until = deadline()
        while selector.select(max(0.0, until - time.monotonic())):
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                follower.flush()
                return
            log.write(chunk)
            log.flush()
            was_done = follower.done
            follower.take(chunk)
            if not follower.done:
                until = deadline()
            elif not was_done:
                until = time.monotonic() + POWER_OFF_SECONDS
        follower.flush()
        if not follower.done:
            follower.outcome.ending = Ending.SILENT


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process that runs or is not reaped yet."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _qemu_complaint(machine: Machine) -> str:
    """QEMU's error output, if it did not start."""
    text = (machine.folder / "qemu-errors.log").read_text(errors="replace").strip()
    return text.splitlines()[-1] if text else ""


def interact(fleet: Fleet, machine: Machine) -> int:
    """Gives the terminal to a shell in the guest until it ends or its time is up."""
    # QEMU makes the terminal raw, and cannot undo that when it is killed.
    terminal = termios.tcgetattr(0) if os.isatty(0) else None
    process = fleet.start(
        command_line(machine), None, None, machine.folder / "qemu-errors.log"
    )
    try:
        process.wait(timeout=machine.bound_seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        fleet.end(process)
        if terminal is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, terminal)
    return process.returncode
