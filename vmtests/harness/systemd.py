# SPDX-License-Identifier: Apache-2.0
"""The archive that makes systemd PID 1 of a guest: systemd and D-Bus as they are installed on this
machine, and a unit that runs the plan.

No journal, no udev, no logins: the services of a case write to files."""

from __future__ import annotations

from pathlib import Path

from . import libraries
from .cpio import Archive
from .image import ImageError

CGROUP = "systemd"

# Path in the guest to path on this machine; the packages are systemd and dbus.
_PROGRAMS = {
    "lib/systemd/systemd": "/lib/systemd/systemd",
    "bin/systemctl": "/usr/bin/systemctl",
    "bin/systemd-run": "/usr/bin/systemd-run",
    "bin/busctl": "/usr/bin/busctl",
    "bin/dbus-daemon": "/usr/bin/dbus-daemon",
}
# A program of its own since 255.
_EXECUTOR = "lib/systemd/systemd-executor"
_FILES = (
    "lib/systemd/system/basic.target",
    "lib/systemd/system/dbus.service",
    "lib/systemd/system/dbus.socket",
    "lib/systemd/system/shutdown.target",
    "lib/systemd/system/sockets.target",
    "lib/systemd/system/sysinit.target",
    "usr/share/dbus-1/system.conf",
    "usr/share/dbus-1/system.d/org.freedesktop.systemd1.conf",
)
_WRITTEN = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "messagebus:x:100:100::/nonexistent:/bin/false\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nmessagebus:x:100:\nnogroup:x:65534:\n",
    "etc/systemd/system.conf": "[Manager]\nLogTarget=kmsg\nShowStatus=no\nStatusUnitFormat=name\n"
    "DefaultStandardOutput=null\nDefaultStandardError=null\n",
    "etc/systemd/system/default.target": "[Unit]\nWants=dbus.service plan.service\n",
    # Its script ends with the machine.
    "etc/systemd/system/plan.service": "[Unit]\nAfter=dbus.service\n[Service]\n"
    "ExecStart=/bin/sh /init plan\nOOMScoreAdjust=-1000\n",
}


def archive(folder: Path, own_files: dict[str, Path]) -> Path:
    """`own_files`: further ones, as path in the guest to path on this machine."""
    path = folder / "systemd.cpio"
    programs = {target: Path(source) for target, source in _PROGRAMS.items()}
    if Path("/", _EXECUTOR).exists():
        programs[_EXECUTOR] = Path("/", _EXECUTOR)
    files = {name: Path("/", name) for name in _FILES} | own_files
    for source in [*programs.values(), *files.values()]:
        if not source.exists():
            raise ImageError(f"{source} is needed (packages systemd and dbus)")
    needed: dict[str, Path] = {}
    for source in programs.values():
        needed.update(libraries.needed_by(source))
    with path.open("wb") as output:
        made = Archive(output)
        for target, source in {**needed, **programs}.items():
            made.file(target, source.read_bytes(), 0o755)
        for target, source in files.items():
            made.file(target, source.read_bytes())
        for target, content in _WRITTEN.items():
            made.file(target, content.encode())
        made.finish()
    return path
