# SPDX-License-Identifier: Apache-2.0
"""The guest's contents besides Debian: our programs, the agents' folders and the pods.

The disks are made for each invocation. What a saved machine already uses is part of its key;
agents, Forestall's program and scenarios are not, so it survives a new build of those."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness import image, libraries, modules
from harness.cpio import Archive
from harness.kernels import Kernel

from . import debian
from .catalogue import AGENTS, HERE, Pod, Scenario

GUEST_PROGRAMS = ("bench_pod", "bench_sample", "bench_unmap", "known_victim", "kubelet_poll")
MODULES = ("virtio_blk", "overlay", "ext4", "crc32c_generic", "lzo", "lzo_rle", "zram")
UNIT = HERE.parent.parent / "scripts/deploy/forestall.service"


# Part of a saved machine, so the contents of the early disk must not change.
EARLY_SCRIPTS = ("boot.sh", "pods.sh")
LATE_MIB = 192  # constant size, because a resumed machine expects the same disks


@dataclass(frozen=True)
class Payload:
    """Two disks: one that the saved machine uses, and one that a run finds after resuming."""

    early: Path
    late: Path
    key: str  # of all that is on the early one


def build(
    folder: Path, programs: dict[str, Path], pods: tuple[Pod, ...], scenarios: list[Scenario],
    node_bytes: int,
) -> Payload:  # fmt: skip
    """Makes the disks in a folder. `pods` are the steady ones."""
    early, late = folder / "early", folder / "late"
    key = _stage_early(early, programs["bench_pod"], pods, node_bytes)
    late_programs = {name: path for name, path in programs.items() if name != "bench_pod"}
    _stage_late(late, late_programs, pods, scenarios, node_bytes)
    load = Payload(folder / "early.img", folder / "late.img", key)
    debian.make_disk(early, load.early, 16)
    debian.make_disk(late, load.late, LATE_MIB)
    shutil.rmtree(early)
    shutil.rmtree(late)
    return load


def _stage_early(
    stage: Path, bench_pod: Path, pods: tuple[Pod, ...], node_bytes: int
) -> str:
    (stage / "late").mkdir(parents=True)
    shutil.copytree(HERE / "guest/units", stage / "units")
    for name in EARLY_SCRIPTS:
        shutil.copy(HERE / "guest" / name, stage / name)
    _copy_stripped(bench_pod, stage / "bench_pod")
    (stage / "steady").write_text(_start_table(pods, node_bytes))
    return _key_of(stage)


def _stage_late(
    stage: Path, programs: dict[str, Path], pods: tuple[Pod, ...], scenarios: list[Scenario],
    node_bytes: int,
) -> None:  # fmt: skip
    for name in ("scenarios", "quotas", "children"):
        (stage / name).mkdir(parents=True)
    _place_programs(stage, programs)
    shutil.copytree(AGENTS, stage / "agents")
    shutil.copy(HERE / "guest/run.sh", stage / "run.sh")
    shutil.copy(UNIT, stage / "forestall.service")
    everybody = {pod.name: pod for pod in pods}
    for scenario in scenarios:
        (stage / "scenarios" / scenario.name).write_text(_start_table(scenario.pods, node_bytes))
        quotas = "".join(f"{pod.slice} {pod.cpu}\n" for pod in scenario.pods if pod.cpu)
        (stage / "quotas" / scenario.name).write_text(quotas)
        children = "".join(
            f"{pod.cgroup.rpartition('/')[0]} {pod.children}\n"
            for pod in scenario.pods if pod.children
        )  # fmt: skip
        (stage / "children" / scenario.name).write_text(children)
        for pod in scenario.pods:
            # A name may have different work in two scenarios, but the same request.
            if everybody.setdefault(pod.name, pod).request != pod.request:
                raise debian.DiskError(f"{scenario.name}: {pod.name} has another request before")
    (stage / "pods").write_text(request_table(everybody.values()))
    (stage / "manifest.yaml").write_text(manifest(everybody.values()))


def initramfs(kernel: Kernel, folder: Path) -> Path:
    """Busybox, modules and the script that puts the disks together."""
    path = folder / "initramfs.cpio"
    dependencies = modules.parse_dependencies((kernel.modules / "modules.dep").read_text())
    order = modules.load_order(dependencies, MODULES)
    with path.open("wb") as output:
        archive = Archive(output)
        for name in ("proc", "sys", "dev", "lower", "overlay", "root"):
            archive.folder(name)
        archive.character_device("dev/console", 5, 1)
        archive.character_device("dev/null", 1, 3)
        busybox = image.find_busybox()
        archive.file("bin/busybox", busybox.read_bytes(), 0o755)
        for applet in ("sh", "mount", "umount", "insmod", "mkdir", "cp", "ln", "switch_root",
                       "poweroff"):  # fmt: skip
            archive.link(f"bin/{applet}", "busybox")
        for module in order:
            plain = modules.read_plain(kernel.modules / module)
            archive.file(f"modules/{modules.plain_path(module)}", plain)
        listed = "".join(f"{modules.plain_path(module)}\n" for module in order)
        archive.file("modules/order", listed.encode())
        archive.file("init", (HERE / "guest/initramfs.sh").read_bytes(), 0o755)
        archive.finish()
    return path


def request_table(pods: Iterable[Pod]) -> str:
    """For the poller: name, cgroup, request and priority of every pod there may be."""
    return "".join(f"{pod.name} {pod.cgroup} {pod.request} 0\n" for pod in pods)


def manifest(pods: Iterable[Pod]) -> str:
    """For Forestall: the data of the API server."""
    lines = [
        f"  - {{uid: {pod.uid}, name: {pod.name}, priority: 0, memoryRequest: {pod.request}}}\n"
        for pod in pods
    ]
    return "pods:\n" + "".join(lines)


def _start_table(pods: tuple[Pod, ...], node_bytes: int) -> str:
    return "".join(
        f"{pod.name} {pod.slice} {pod.scope} {pod.oom_score_adj(node_bytes)} "
        f"{pod.limit if pod.limit is not None else 'infinity'} {pod.work}\n"
        for pod in pods
    )


def _place_programs(stage: Path, programs: dict[str, Path]) -> None:
    (stage / "bin").mkdir()
    (stage / "lib").mkdir()
    for name, source in programs.items():
        _copy_stripped(source, stage / "bin" / name)
        # The loader is the guest's, which is of the same Debian release.
        for guest, library in libraries.needed_by(source).items():
            if not Path(guest).name.startswith("ld-linux"):
                shutil.copy(library, stage / "lib" / Path(guest).name)


def _copy_stripped(source: Path, target: Path) -> None:
    shutil.copy(source, target)
    subprocess.run(["strip", "--strip-debug", str(target)], check=False, capture_output=True)


def _key_of(stage: Path) -> str:
    key = hashlib.sha256()
    for path in sorted(path for path in stage.rglob("*") if path.is_file()):
        key.update(str(path.relative_to(stage)).encode() + b"\0")
        key.update(hashlib.sha256(path.read_bytes()).digest())
    return key.hexdigest()[:16]
