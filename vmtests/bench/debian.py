# SPDX-License-Identifier: Apache-2.0
"""The disk that every guest boots from: Debian 12 with systemd and the peers' packages.

Made once by debootstrap from Debian's archive, verified by its keys, and kept. It contains
nothing of ours, so it does not change with what is measured."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from harness import mirrors

PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2",
    "systemd-oomd", "earlyoom", "nohang", "oomd",
)  # fmt: skip
# Units that would start by themselves: the agents, and what a guest of one minute does not need.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "getty@tty1.service", "serial-getty@ttyS0.service",
    "nohang-desktop.service", "systemd-pstore.service", "systemd-networkd.service",
)  # fmt: skip
AGENT_UNITS = (
    "earlyoom.service", "nohang.service", "oomd.service", "systemd-oomd.service",
    "systemd-oomd.socket",
)  # fmt: skip
DROPPED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "var/log")
BIG_FILE_MIB = 450


class DiskError(Exception):
    """A disk could not be made; the text has the failed tool and its message."""


def root_disk(cache: Path) -> Path:
    """The disk with Debian on it; takes minutes the first time."""
    key = hashlib.sha256(repr((PACKAGES, MASKED, AGENT_UNITS, DROPPED)).encode()).hexdigest()[:12]
    disk = cache / f"debian-{key}.img"
    if not disk.exists():
        tree = cache / f"debian-{key}"
        if not (tree / "sbin/init").exists():
            _bootstrap(tree)
        _settle(tree)
        make_disk(tree, disk, 768)
        shutil.rmtree(tree)
    return disk


def data_disk(cache: Path) -> Path:
    """A disk with one file to fill the page cache from."""
    disk = cache / f"data-{BIG_FILE_MIB}.img"
    if not disk.exists():
        folder = cache / "data"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "big").open("wb") as file:
            for _ in range(BIG_FILE_MIB):
                file.write(os.urandom(1 << 20))
        make_disk(folder, disk, BIG_FILE_MIB + 64)
        shutil.rmtree(folder)
    return disk


def make_disk(tree: Path, disk: Path, mib: int) -> None:
    """An ext4 image of a folder; it appears only when it is complete."""
    mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin")
    if mkfs is None:
        raise DiskError("mkfs.ext4 is needed (package e2fsprogs)")
    partial = disk.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    checked(mkfs, "-q", "-d", str(tree), "-O", "^has_journal", "-m", "0", str(partial), f"{mib}M")
    partial.rename(disk)


def checked(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise DiskError(f"{Path(command[0]).name}: {' '.join(words) or done.returncode}")


def _bootstrap(tree: Path) -> None:
    debootstrap = shutil.which("debootstrap", path="/usr/sbin:/sbin")
    if debootstrap is None:
        raise DiskError("debootstrap is needed (package debootstrap)")
    if os.geteuid() != 0:
        raise DiskError("debootstrap must be run by root, the first time")
    partial = tree.with_name(tree.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    checked(
        debootstrap, "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm",
        str(partial), mirrors.of_this_machine().archive,
    )  # fmt: skip
    partial.rename(tree)


def _settle(tree: Path) -> None:
    """Starts only what a run needs; drops documentation."""
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        raise DiskError("systemctl is needed (package systemd)")
    checked(systemctl, f"--root={tree}", "disable", *AGENT_UNITS)
    checked(systemctl, f"--root={tree}", "mask", *MASKED)
    for name in DROPPED:
        shutil.rmtree(tree / name, ignore_errors=True)
        (tree / name).mkdir()
    (tree / "etc/hostname").write_text("bench\n")
    (tree / "etc/machine-id").write_text("00000000000000000000000000000002\n")
