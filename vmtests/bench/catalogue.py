# SPDX-License-Identifier: Apache-2.0
"""Agents, scenarios and pods, read from their small files.

agents/NAME/     agent.toml (title, configuration, its lines) and `start`, a script
that runs in the guest and prints the name of the unit it started
scenarios/NAME.toml  a title, how long it lasts and the pods it adds to the steady ones

Pods get what kubelet gives them: a class by their request, an oom_score_adj by their class, and
cgroups with the names of the systemd driver."""

from __future__ import annotations

import hashlib
import tomllib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
AGENTS = HERE / "agents"
SCENARIOS = HERE / "scenarios"
STEADY = HERE / "steady.toml"
STEADY_FOR_MIB = 2048

# In a fixed order; unlisted ones follow, by name.
DEFAULT_AGENTS = (
    "forestall", "forestall-nobpf", "earlyoom", "nohang", "oomd", "systemd-oomd", "kubelet-poll",
    "plain-exit", "none",
)  # fmt: skip
# They are no peers: what happens without an agent, and what a kill takes at least.
REFERENCES = ("none", "plain-exit")
DEFAULT_SCENARIOS = (
    "slow-leak", "fast-leak", "spike", "cache-leak", "own-limit", "zram-thrash", "cpu-saturated",
    "cpu-idle", "fork-bomb",
)  # fmt: skip

_NAMES_OF_PODS = uuid.UUID("6b1f7f0e-0000-4000-8000-f07e57a11000")
_COMM_MOST = 15  # the kernel cuts longer names in traces
_READINGS = ("available", "kubelet_available", "until_oom", "limit_left")


class CatalogueError(Exception):
    """A file of the catalogue is invalid."""


@dataclass(frozen=True)
class Line:
    """Where an agent's threshold is, in a reading of the sampler.

    available: MemAvailable. kubelet_available: MemTotal less the working set. until_oom:
    MemAvailable and SwapFree together. limit_left: how far the scenario's limited pod is from its
    limit; only scenarios with such a pod have this line."""

    reading: str
    mib: float | None = None
    percent: float | None = None  # of all memory
    # The second condition of some agents: free swap is less than this share. Without swap it is
    # always true, unless the line is of nodes with swap only.
    swap_percent: float | None = None
    with_swap: bool = False

    def kib(self, total_kib: int) -> float:
        if self.mib is not None:
            return self.mib * 1024
        assert self.percent is not None
        return total_kib * self.percent / 100


@dataclass(frozen=True)
class Agent:
    name: str
    title: str
    configuration: str
    lines: tuple[Line, ...]  # acts at the first; empty: not expressible in readings
    phase_ms: int  # how far the seed may shift "go", so that it hits any phase of a polling agent
    peer: str = ""  # the agent with the same rules, whose cost is compared

    @property
    def ours(self) -> bool:
        return self.name.startswith("forestall")


@dataclass(frozen=True)
class Pod:
    name: str
    qos: str  # guaranteed, burstable, besteffort
    request: int
    limit: int | None
    work: str
    guilty: bool
    cpu: str = ""  # the most CPU it gets, in percent of one; empty: no limit
    children: int = 0  # cgroups in the pod's, with a process in each

    @property
    def uid(self) -> str:
        return str(uuid.uuid5(_NAMES_OF_PODS, self.name))

    @property
    def slice(self) -> str:
        middle = "" if self.qos == "guaranteed" else f"{self.qos}-"
        return f"kubepods-{middle}pod{self.uid.replace('-', '_')}.slice"

    @property
    def scope(self) -> str:
        return f"cri-containerd-{hashlib.sha256(self.name.encode()).hexdigest()}.scope"

    @property
    def cgroup(self) -> str:
        middle = "" if self.qos == "guaranteed" else f"/kubepods-{self.qos}.slice"
        return f"/sys/fs/cgroup/kubepods.slice{middle}/{self.slice}/{self.scope}"

    def oom_score_adj(self, node_bytes: int) -> int:
        """As kubelet computes it; a Burstable pod stays between the two others."""
        if self.qos == "guaranteed":
            return -997
        if self.qos == "besteffort":
            return 1000
        return min(max(1000 - 1000 * self.request // node_bytes, 3), 999)


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    seconds: int
    zram: str  # size of the swap on zram; 0: no swap
    pods: tuple[Pod, ...]
    idle: str = ""  # the scenario that is the same without the load, if one is
    cost: bool = False  # no pod is to die: the CPU of the agents is measured

    @property
    def guilty(self) -> frozenset[str]:
        return frozenset(pod.name for pod in self.pods if pod.guilty)

    @property
    def limited(self) -> str:
        """The cgroup whose own limit is sampled, as kubelet does: the pod's; `-` if there is none.
        """
        limited = [pod.cgroup.rpartition("/")[0] for pod in self.pods if pod.limit is not None]
        return limited[0] if limited else "-"


def agents() -> dict[str, Agent]:
    found = {path.parent.name: path for path in AGENTS.glob("*/agent.toml")}
    return {name: read_agent(found[name]) for name in _ordered(found, DEFAULT_AGENTS)}


def scenarios() -> dict[str, Scenario]:
    found = {path.stem: path for path in SCENARIOS.glob("*.toml")}
    return {name: read_scenario(found[name]) for name in _ordered(found, DEFAULT_SCENARIOS)}


def steady(memory_mib: int = STEADY_FOR_MIB) -> tuple[Pod, ...]:
    """The pods of every scenario. A larger node gets one more, which leaves as much free as on a
    small one."""
    pods = _pods(_read(STEADY), STEADY)
    more = memory_mib - STEADY_FOR_MIB
    if more <= 0:
        return pods
    return (*pods, Pod("g-ballast", "guaranteed", more << 20, None, f"hold {more}M", False))


def read_agent(path: Path) -> Agent:
    content = _read(path)
    _only(path, content, {"title", "configuration", "lines", "phase_ms", "peer"})
    lines = tuple(Line(**line) for line in content.get("lines", []))
    for line in lines:
        if line.reading not in _READINGS or (line.mib is None) == (line.percent is None):
            raise CatalogueError(f"{path}: lines: a reading of {_READINGS} and mib or percent")
    return Agent(
        path.parent.name,
        content["title"],
        " ".join(content["configuration"].split()),
        lines,
        content.get("phase_ms", 1000),
        content.get("peer", ""),
    )


def read_scenario(path: Path) -> Scenario:
    content = _read(path)
    _only(path, content, {"title", "seconds", "zram", "pods", "idle", "cost"})
    pods = _pods(content, path)
    cost = content.get("cost", False)
    if cost == any(pod.guilty for pod in pods):
        raise CatalogueError(f"{path}: a pod is guilty" if cost else f"{path}: no pod is guilty")
    if sum(pod.limit is not None for pod in pods) > 1:
        raise CatalogueError(f"{path}: only one pod's limit can be sampled")
    return Scenario(
        path.stem, content["title"], content["seconds"], content.get("zram", "0"), pods,
        content.get("idle", ""), cost,
    )  # fmt: skip


def parse_bytes(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30}
    if text[-1:] in units:
        return int(text[:-1]) << units[text[-1]]
    return int(text)


def _pods(content: dict[str, Any], path: Path) -> tuple[Pod, ...]:
    pods = []
    for entry in content["pods"]:
        _only(path, entry, {"name", "class", "request", "limit", "work", "guilty", "cpu", "count",
                            "children"})  # fmt: skip
        name, qos = entry["name"], entry["class"]
        if qos not in ("guaranteed", "burstable", "besteffort"):
            raise CatalogueError(f"{path}: {name}: no class {qos}")
        names = [f"{name}-{n:02}" for n in range(entry["count"])] if "count" in entry else [name]
        if any(len(each) > _COMM_MOST for each in names):
            raise CatalogueError(f"{path}: {name}: longer than {_COMM_MOST} characters")
        request = parse_bytes(entry.get("request", "0"))
        if (request == 0) != (qos == "besteffort"):
            raise CatalogueError(f"{path}: {name}: its class does not go with its request")
        limit = parse_bytes(entry["limit"]) if "limit" in entry else None
        pods += [
            Pod(
                each, qos, request, limit, entry["work"], entry.get("guilty", False),
                entry.get("cpu", ""), entry.get("children", 0),
            )  # fmt: skip
            for each in names
        ]
    return tuple(pods)


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def _only(path: Path, content: dict[str, Any], keys: set[str]) -> None:
    unknown = set(content) - keys
    if unknown:
        raise CatalogueError(f"{path}: unknown: {', '.join(sorted(unknown))}")


def _ordered(found: Iterable[str], first: tuple[str, ...]) -> list[str]:
    return sorted(found, key=lambda name: (first.index(name) if name in first else 99, name))
