# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks to run the cluster, found by trying it.

Each attempt is made in namespaces of its own, with what the lab itself uses, and leaves nothing.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile

CGROUPS = pathlib.Path("/sys/fs/cgroup")
PROGRAMS = ("kubectl", "containerd", "runc", "ctr", "gcc", "openssl", "ip", "mount", "unshare")
# The cluster's own processes and 1,536 MiB of pods.
MEMORY_MIN = 4 << 30
# The image three times (archive, blobs, unpacked), etcd, logs.
DISK_MIN = 1 << 30
SECONDS_MAX = 60

# $1 is a folder. Fails with the words of the command that failed.
MOUNTS = """
mount --make-rshared /
mkdir -p "$1/upper" "$1/work"
mount -t tmpfs tmpfs /run
echo 1 >"$1/value"
mount --bind "$1/value" /proc/sys/vm/overcommit_memory
"""
# nsenter enters the root of the mount namespace; kubectl exec enters a container in the same way.
# After chroot(2) that is another folder than /, and runc cannot make / the root of a container.
ROOT = """
mounts=/proc/self/ns/mnt
test "$(stat -c %d:%i /)" = "$(nsenter --mount=$mounts stat -c %d:%i /)"
"""
NETWORK = """
ip link set lo up
ip address add 10.99.9.1/32 dev lo
ip link add lab0 type bridge
ip link add lab1 type veth peer name lab2
"""
OVERLAY = """
mkdir -p "$1/upper" "$1/work"
mount -t overlay overlay -o "lowerdir=/var,upperdir=$1/upper,workdir=$1/work" /var
"""


def attempt(namespaces: tuple[str, ...], script: str, folder: pathlib.Path) -> str:
    """Runs the script in new namespaces; what it printed if it failed, else nothing."""
    command = ["unshare", *namespaces, "sh", "-euc", script, "sh", str(folder)]
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS_MAX} s"
    return "" if ran.returncode == 0 else ran.stdout.strip() or f"status {ran.returncode}"


def cgroup_problem(name: str) -> str:
    """Makes a cgroup, moves a process into it, and removes it."""
    if not (CGROUPS / "memory/cgroup.procs").exists():
        return "the memory controller of cgroup v1 (Kubernetes 1.20's kubelet)"
    folder = CGROUPS / "memory" / name
    try:
        folder.mkdir()
    except OSError as error:
        return f"cgroups that can be made ({error})"
    try:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        try:
            (folder / "cgroup.procs").write_text(str(child.pid))
        finally:
            child.communicate()
    except OSError as error:
        return f"cgroups that a process can be moved to ({error})"
    finally:
        folder.rmdir()
    return ""


def needs_memory_filesystem(folder: pathlib.Path) -> bool:
    """Whether an overlay cannot write to the filesystem of `folder`, as on another overlay."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        return attempt(("--mount", "--propagation", "private"), OVERLAY,
                       pathlib.Path(made)) != ""


def kernel_log_problem() -> str:
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return f"the kernel's log ({error})"
    return ""


def available_memory() -> int:
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def missing(name: str) -> str:
    """What this machine lacks; empty: nothing. `name` is that of the cluster."""
    if os.geteuid() != 0:
        return "root"
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} (scripts/install_packages.sh cluster; kubectl 1.21 or later)"
    if problem := cgroup_problem(name) or kernel_log_problem():
        return problem
    if available_memory() < MEMORY_MIN:
        return f"{MEMORY_MIN >> 20} MiB of available memory, not {available_memory() >> 20}"
    folder = pathlib.Path(tempfile.gettempdir())
    if (free := shutil.disk_usage(folder).free) < DISK_MIN:
        return f"{DISK_MIN >> 20} MiB free in {folder}, not {free >> 20}"
    with tempfile.TemporaryDirectory() as made:
        scratch = pathlib.Path(made)
        if attempt(("--mount", "--propagation", "private"), ROOT, scratch):
            return "the root of a mount namespace as /; this is a chroot"
        mounts = attempt(("--mount", "--propagation", "private"), MOUNTS, scratch)
        if mounts:
            return f"mounts in a namespace of its own ({mounts})"
        network = attempt(("--net",), NETWORK, scratch)
        if network:
            return f"network links in a namespace of its own ({network})"
    return ""
