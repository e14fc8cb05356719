# SPDX-License-Identifier: Apache-2.0
"""What a cluster on this machine could leave behind, for a comparison of before and after.

Other work on the machine makes and removes mounts, network links, cgroups and files meanwhile, so
only what can be the cluster's is compared: things with its name or folder in them, the addresses
and the link that it uses, and folders that only a kubelet or a CNI plugin writes.
"""

from __future__ import annotations

import os
import pathlib
import re

SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
           "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
           "net/bridge/bridge-nf-call-iptables")
FOLDERS = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/etc/cni")
# Of the lab's node, its API server and its pods' bridge.
ADDRESSES = ("10.99.9.1", "10.99.0.1", "10.98.0.1")
LINK = "lab0"


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
    """`mark` is in the names of the cluster's cgroups, folders and mounts."""
    state: dict[str, object] = {f"sysctl {name}": read(f"/proc/sys/{name}") for name in SYSCTLS}
    state |= {f"folder {path}": entries(path) for path in FOLDERS}
    state["mounts"] = frozenset(each for each in read("/proc/self/mountinfo").splitlines()
                                if mark in each)
    state["links"] = frozenset({LINK} & entries("/sys/class/net"))
    routes = read("/proc/net/fib_trie")
    state["addresses"] = frozenset(each for each in ADDRESSES
                                   if re.search(rf"\b{re.escape(each)}\b", routes))
    state["processes"] = processes(mark)
    # The kubelet's own would be at the top.
    state["cgroups"] = frozenset(
        path for path, _, _ in os.walk("/sys/fs/cgroup")
        if mark in path or re.fullmatch(r"/sys/fs/cgroup/[^/]+/(kubepods|system|k8s\.io)", path))
    return state


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    found = []
    for name, old in before.items():
        new = after[name]
        if isinstance(old, frozenset) and isinstance(new, frozenset):
            # What other work removed meanwhile is not the cluster's.
            if new - old:
                found.append(f"{name}: added {sorted(new - old)}")
        elif new != old:
            found.append(f"{name}: {old!r} is now {new!r}")
    return found
