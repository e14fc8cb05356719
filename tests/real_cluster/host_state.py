# SPDX-License-Identifier: Apache-2.0
"""What a cluster on this machine could leave behind, for a comparison of before and after."""

from __future__ import annotations

import os
import pathlib
import re

SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
           "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
           "net/bridge/bridge-nf-call-iptables")
FOLDERS = ("/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/lib/forestall",
           "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/forestall", "/etc/cni",
           "/sys/fs/bpf")


def read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text()
    except OSError as error:
        return str(error)


def entries(path: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(path))
    except OSError as error:
        return frozenset([error.strerror])


def processes(mark: str) -> frozenset[str]:
    """Processes of which a cgroup, the command or the environment contains `mark`."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in (os.getpid(), os.getppid()):
            continue
        texts = [read(f"/proc/{pid}/{name}") for name in ("cgroup", "cmdline", "environ")]
        if any(mark in text for text in texts):
            found.add(f"{pid} {texts[1][:200]!r}")
    return frozenset(found)


def capture(mark: str) -> dict[str, object]:
    state: dict[str, object] = {f"sysctl {name}": read(f"/proc/sys/{name}") for name in SYSCTLS}
    state |= {f"folder {path}": entries(path) for path in FOLDERS}
    state["mounts"] = frozenset(read("/proc/self/mounts").splitlines())
    state["links"] = entries("/sys/class/net")
    state["processes"] = processes(mark)
    # Cgroups of other tests on the same machine come and go; the kubelet's own would be at the top.
    state["cgroups"] = frozenset(
        path for path, _, _ in os.walk("/sys/fs/cgroup")
        if mark in path or re.fullmatch(r"/sys/fs/cgroup/[^/]+/(kubepods|system|k8s\.io)", path))
    return state


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    found = []
    for name, old in before.items():
        new = after[name]
        if new == old:
            continue
        if isinstance(old, frozenset) and isinstance(new, frozenset):
            found.append(f"{name}: added {sorted(new - old)}, removed {sorted(old - new)}")
        else:
            found.append(f"{name}: {old!r} is now {new!r}")
    return found
