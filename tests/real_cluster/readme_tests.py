# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md, section "In Kubernetes", as a new user enters them."""

from __future__ import annotations

import json
import os
import re
import time

import fixture
from fixture import (MANIFESTS, NODES, PODS, THRESHOLD, ClusterCase, capability_patches, pressure,
                     report)
from lab import NODE, TOP, run

BASE = "scripts/deploy/kubernetes/base"
ARCHIVE = "build/image/forestall.tar"
BUSYBOX = "busybox:1.36"


def commands() -> list[str]:
    """Of the section, in its order, without their comments."""
    text = (TOP / "README.md").read_text()
    section = re.search(r"^### In Kubernetes\n(.*?)^##", text, re.MULTILINE | re.DOTALL)[1]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    lines = [line.split("  #")[0].strip() for line in "".join(blocks).splitlines()]
    return [line for line in lines if line]


def import_busybox() -> None:
    """What a node would pull from a registry."""
    archive = fixture.lab.folder / "busybox.tar"
    run("python3", TOP / "tests/integration/cri/pack_image.py", "/bin/busybox",
        f"docker.io/library/{BUSYBOX}", archive, "tail")
    fixture.lab.import_image(archive)


class ReadmeTests(ClusterCase):
    def base(self) -> str:
        """The manifests, or on a host that lacks a capability an overlay without it."""
        patches = capability_patches()
        if not patches:
            return BASE
        folder = fixture.lab.folder / "as-in-readme"
        folder.mkdir(exist_ok=True)
        (folder / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "resources": [os.path.relpath(MANIFESTS / "base", folder.resolve())],
            "patches": patches}))
        return str(folder)

    def enter(self, command: str, base: str) -> str:
        here = command.replace(BASE, base).replace(ARCHIVE, str(fixture.image))
        printed = run("sh", "-euc", here, cwd=TOP,
                      env=os.environ | {"KUBECONFIG": str(fixture.lab.kubeconfig)})
        print(f"  $ {command}\n{printed}", end="", flush=True)
        return printed

    def start_over(self, base: str) -> None:
        """As a new user finds the cluster: without Forestall, and with a kubelet that has the
        threshold. The agent takes it from there."""
        self.enter(f"kubectl delete -k {BASE} --ignore-not-found", base)
        # Of tests before this one. Their role is in the namespace, which is gone.
        for each in ("-k scripts/deploy/kubernetes/rebalancer",
                     "-f scripts/deploy/kubernetes/overlays/placeholder/placeholder.yaml"):
            self.enter(f"kubectl delete {each} --ignore-not-found", base)
        fixture.lab.kubelet_threshold = THRESHOLD
        fixture.lab.services["kubelet"].stop()
        fixture.lab.start_kubelet()
        import_busybox()

    def test_zz_the_commands_of_the_readme_evict_a_leaker_and_leave_nothing(self) -> None:
        listed, base = commands(), self.base()
        self.assertEqual(listed[0], "scripts/image.sh")  # run.py has its result
        self.assertLess(len(listed), 12)
        self.start_over(base)
        removal = next(i for i, each in enumerate(listed) if " delete " in each)
        begun = time.monotonic()
        printed = "".join(self.enter(each, base) for each in listed[1:removal])
        report("from the import to the evicted leaker", f"{time.monotonic() - begun:.1f} s")
        self.assertRegex(printed, "pod/leaker .*The node was low on resource: memory")
        self.assert_prompt(1, "the leaker of the README")
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
        self.assertEqual(fixture.lab.api.get(PODS)["items"], [])
        for each in listed[removal:]:
            self.enter(each, base)
        node = fixture.lab.api.get(f"{NODES}/{NODE}")
        self.assertEqual(pressure(node), ("", False))
        self.assertNotIn("forestall", json.dumps(node["metadata"]["annotations"]))
        left = fixture.lab.kubectl("get", "crd,clusterroles,clusterrolebindings,namespaces", "-o",
                                   "name")
        self.assertNotIn("forestall", left)
