# SPDX-License-Identifier: Apache-2.0
"""run.py --pods N: memory and CPU time of both processes on a node with N pods.

The node and its pods are objects of the API server only, beside the lab's own node. Each pod has a
cgroup with one process that does nothing, where the kubelet would make it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time

import fixture
from fixture import NODES, PODS, hog
from lab import CGROUPS, CLUSTER_USER, LabError, run

NODE = "many"
SECONDS = 60
HIERARCHIES = ("memory", "unified")


def create_pods(count: int) -> list[str]:
    """UIDs of Burstable pods, half of them with a request."""
    fixture.lab.api.call("POST", NODES, {"apiVersion": "v1", "kind": "Node",
                                         "metadata": {"name": NODE}})
    uids = []
    for index in range(count):
        pod = hog(f"many-{index}", nodeName=NODE)
        if index % 2:
            pod["spec"]["containers"][0]["resources"] = {"requests": {"memory": "64Mi"}}
        made = fixture.lab.api.call("POST", PODS, pod)
        uids.append(made["metadata"]["uid"])
        fixture.lab.api.call("PATCH", f"{PODS}/many-{index}/status",
                             {"status": {"phase": "Running"}}, "application/merge-patch+json")
    return uids


def create_cgroups(uids: list[str]) -> str:
    """Their root, as the kubelet's cgroupRoot."""
    root = f"{fixture.lab.cgroups.name}/many"
    for index, uid in enumerate(uids):
        quality = "burstable" if index % 2 else "besteffort"
        folder = f"{root}/kubepods/{quality}/pod{uid}/{index:064x}"
        process = subprocess.Popen([str(fixture.lab.folder / "pause")], stdin=subprocess.DEVNULL)
        for hierarchy in HIERARCHIES:
            path = CGROUPS / hierarchy / folder
            path.mkdir(parents=True)
            (path / "cgroup.procs").write_text(str(process.pid))
    return f"/{root}"


def start(root: str) -> tuple[subprocess.Popen, subprocess.Popen]:
    folder = pathlib.Path("/run/many")
    folder.mkdir()
    config = fixture.lab.folder / "many.yaml"
    config.write_text(f"pods: {{cgroupRoot: {root}}}\n"
                      f"dryRun: true\n"
                      f"evictionHard: {{memory.available: 100Mi}}\n"
                      f"apiUsers: {{podWriters: [{CLUSTER_USER}]}}\n")
    log = (fixture.lab.folder / "many.log").open("wb")
    agent = subprocess.Popen([str(fixture.program_of_image()), "agent", "--config", str(config),
                              "--run-dir", str(folder)],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    kubeconfig = fixture.lab.account_kubeconfig("forestall", "forestall")
    kubeconfig.chmod(0o644)
    for parent in (fixture.lab.folder, fixture.lab.pki):
        parent.chmod(0o755)
    (fixture.lab.pki / "ca.crt").chmod(0o644)
    cluster = subprocess.Popen(
        [str(fixture.program_of_image("libexec/forestall/forestall-cluster")), "cluster", "--node",
         NODE, "--kubeconfig", str(kubeconfig), "--run-dir", str(folder)],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=CLUSTER_USER, group=CLUSTER_USER,
        extra_groups=[])
    return agent, cluster


def wait_until_known(count: int) -> None:
    deadline = time.monotonic() + 120
    pods: dict = {}
    while time.monotonic() < deadline:
        try:
            status = json.loads(run(fixture.program_of_image(), "status", "-o", "json",
                                    "--run-dir", "/run/many"))
            pods = status["pods"]
        except (LabError, KeyError):  # it has just begun
            continue
        if pods.get("known") == count and not pods.get("inferred"):
            return
    log = (fixture.lab.folder / "many.log").read_text()
    raise LabError(f"the agent has {pods} of {count} pods; the log: {log[-2000:]}")


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def mebibytes(pid: int, name: str) -> float:
    return int(fixture.process_status(pid)[name].split()[0]) / 1024


def print_scale(count: int) -> None:
    fixture.lab.kubectl("apply", "-k", fixture.MANIFESTS / "crd")
    for file in ("namespace.yaml", "rbac.yaml"):
        fixture.lab.kubectl("apply", "-n", "forestall", "-f", fixture.MANIFESTS / "base" / file)
    begun = time.monotonic()
    root = create_cgroups(create_pods(count))
    print(f"  {count} pods created in {time.monotonic() - begun:.1f} s")
    begun = time.monotonic()
    agent, cluster = start(root)
    wait_until_known(count)
    print(f"  start to all pods known: {time.monotonic() - begun:.1f} s")
    processes = {"forestall agent": agent.pid, "forestall cluster": cluster.pid}
    before = {name: cpu_seconds(pid) for name, pid in processes.items()}
    time.sleep(SECONDS)
    for name, pid in processes.items():
        used = cpu_seconds(pid) - before[name]
        print(f"  {name}: {mebibytes(pid, 'VmRSS'):.1f} MiB now, {mebibytes(pid, 'VmHWM'):.1f} MiB "
              f"at most; CPU: {before[name]:.2f} s until then, {used / SECONDS * 100:.2f} % of a "
              f"CPU for {SECONDS} s")
    for each in (cluster, agent):
        each.terminate()
        each.wait(20)
