#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubernetes_test.py FORESTALL: renders the manifests for Kubernetes as `kubectl apply -k` does,
and checks what they grant."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
MANIFESTS = TOP / "scripts/deploy/kubernetes"
TARGETS = ("base", "overlays/dry-run", "overlays/guard", "overlays/openshift")
FORESTALL = ""


def render(folder: pathlib.Path) -> str:
    ran = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    if ran.returncode != 0:
        raise AssertionError(f"kubectl kustomize {folder}: {ran.stderr}")
    if "Warning" in ran.stderr:
        raise AssertionError(ran.stderr)
    return ran.stdout


def objects(rendered: str) -> dict[str, str]:
    """The text of each object, by its kind."""
    found = {}
    for each in rendered.split("\n---\n"):
        kind = re.search(r"^kind: (\w+)$", each, re.MULTILINE)[1]
        assert kind not in found, kind
        found[kind] = each
    return found


def items(text: str, key: str) -> set[str]:
    """The items of a list of words below `key`."""
    found = re.search(rf"^( *){key}:\n((?:\1 *- \S+\n)+)", text + "\n", re.MULTILINE)
    return set(re.findall(r"- (\S+)", found[2]))


def containers(pod: str) -> dict[str, str]:
    """The text of each container, by its name."""
    text = re.search(r"^      containers:\n((?:      [ -].*\n)+)", pod, re.MULTILINE)[1]
    each = re.split(r"^      - ", text, flags=re.MULTILINE)[1:]
    return {re.search(r"^        name: (\S+)$", one, re.MULTILINE)[1]: one for one in each}


class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.rendered = {each: objects(render(MANIFESTS / each)) for each in TARGETS}

    def test_pod_has_no_more_than_it_needs(self) -> None:
        for target, found in self.rendered.items():
            pod = found["DaemonSet"]
            with self.subTest(target):
                for line in ("hostPID: true", "type: RuntimeDefault", "maxUnavailable: 1",
                             "priorityClassName: system-node-critical", "livenessProbe:",
                             "readinessProbe:", "startupProbe:", "timeoutSeconds: 5"):
                    self.assertIn(line, pod)
                for word in ("privileged", "hostNetwork", "hostIPC"):
                    self.assertNotIn(word, pod)
                for each in containers(pod).values():
                    self.assertIn("allowPrivilegeEscalation: false", each)
                    self.assertIn("readOnlyRootFilesystem: true", each)
                    self.assertEqual(items(each, "drop"), {"ALL"})

    def test_token_and_capabilities_are_in_different_containers(self) -> None:
        for target, found in self.rendered.items():
            both = containers(found["DaemonSet"])
            with self.subTest(target):
                self.assertEqual(both.keys(), {"agent", "cluster"})
                self.assertIn("automountServiceAccountToken: false", found["DaemonSet"])
                self.assertIn("automountServiceAccountToken: false", found["ServiceAccount"])
                self.assertNotIn("secrets", both["agent"])
                self.assertIn("name: token\n", both["cluster"])
                self.assertNotIn("add:", both["cluster"])
                self.assertNotIn("/host/", both["cluster"])
                self.assertIn("runAsNonRoot: true", both["cluster"])
                user = re.search(r"runAsUser: (\d+)", both["cluster"])[1]
                self.assertIn(f"podWriters: [{user}]", found["ConfigMap"])

    def test_role_has_the_least_verbs(self) -> None:
        role = self.rendered["base"]["ClusterRole"] + "\n"
        rules = re.findall(r"- apiGroups:\n((?:  .*\n)+)", role)
        granted = {(resource, verb) for rule in rules for resource in items(rule, "  resources")
                   for verb in items(rule, "  verbs")}
        self.assertEqual(granted, {("pods", "list"), ("pods", "watch"), ("pods", "delete"),
                                   ("pods/eviction", "create"), ("pods/status", "patch"),
                                   ("nodes", "get"), ("nodes", "patch"), ("nodes/status", "patch"),
                                   ("events", "create"), ("events", "patch"),
                                   ("nodereports", "create"), ("nodereports", "patch")})

    def test_role_in_its_namespace_reads_what_the_pod_belongs_to(self) -> None:
        role = self.rendered["base"]["Role"] + "\n"
        rules = re.findall(r"- apiGroups:\n((?:  .*\n)+)", role)
        self.assertEqual([(items(each, "  resources"), items(each, "  verbs")) for each in rules],
                         [({"daemonsets"}, {"get"}), ({"namespaces"}, {"get"})])
        self.assertIn("- $(POD_NAMESPACE)/forestall\n", self.rendered["base"]["DaemonSet"])

    def test_each_capability_has_its_reason(self) -> None:
        text = (MANIFESTS / "base/daemonset.yaml").read_text()
        reasons = re.findall(r"^ *# ([A-Z_]+(?:, [A-Z_]+)*): ", text, re.MULTILINE)
        explained = {name for each in reasons for name in each.split(", ")}
        self.assertEqual(items(self.rendered["base"]["DaemonSet"], "add"), explained)

    def test_openshift_permits_what_the_pod_asks_for(self) -> None:
        found = self.rendered["overlays/openshift"]
        constraints, pod = found["SecurityContextConstraints"], found["DaemonSet"]
        self.assertEqual(items(constraints, "allowedCapabilities"), items(pod, "add"))
        self.assertEqual(items(constraints, "volumes"), {"configMap", "hostPath", "projected"})
        account = re.search(r"serviceAccountName: (\S+)", pod)[1]
        self.assertEqual(items(constraints, "users"),
                         {f"system:serviceaccount:forestall:{account}"})
        self.assertNotIn("containerd", pod)
        self.assertNotIn("namespace:", constraints)

    def test_image_is_the_one_that_image_sh_makes(self) -> None:
        version = re.search(r"project\(forestall VERSION (\S+)",
                            (TOP / "CMakeLists.txt").read_text())[1]
        for target, found in self.rendered.items():
            self.assertIn(f"image: localhost/forestall:{version}\n", found["DaemonSet"], target)

    def test_network_policy_permits_the_metrics_and_the_api_server(self) -> None:
        policy, pod = self.rendered["base"]["NetworkPolicy"], self.rendered["base"]["DaemonSet"]
        self.assertEqual(items(policy, "policyTypes"), {"Ingress", "Egress"})
        egress, ingress = policy.split("  ingress:")
        self.assertEqual(set(re.findall(r"port: (\d+)", egress)), {"443", "6443"})
        ports = re.findall(r"port: (\d+)", ingress)
        self.assertEqual(ports, re.findall(r"containerPort: (\d+)", pod))
        self.assertIn(f'metricsAddress: "0.0.0.0:{ports[0]}"', self.rendered["base"]["ConfigMap"])

    def test_configurations_are_valid_and_do_what_the_overlay_is_called(self) -> None:
        expected = {"base": set(), "overlays/dry-run": {"dryRun: true"},
                    "overlays/guard": {"guard: on"}, "overlays/openshift": set()}
        for target, settings in expected.items():
            with self.subTest(target), tempfile.TemporaryDirectory() as scratch:
                text = (MANIFESTS / target / "config.yaml").read_text()
                kubelet = pathlib.Path(scratch) / "kubelet.yaml"
                kubelet.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\n"
                                   "kind: KubeletConfiguration\n")
                config = pathlib.Path(scratch) / "config.yaml"
                config.write_text(re.sub(r"(?m)^kubeletConfig: .*", f"kubeletConfig: {kubelet}",
                                         text))
                ran = subprocess.run([FORESTALL, "check-config", "--config", str(config)],
                                     capture_output=True, text=True)
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                found = {line for line in text.splitlines()
                         if line.startswith(("dryRun:", "guard:"))}
                self.assertEqual(found, settings)
                # What is rendered is this file.
                self.assertIn(text.strip().replace("\n", "\n    "),
                              self.rendered[target]["ConfigMap"])

    def test_rebalancer_has_the_least_verbs(self) -> None:
        rendered = render(MANIFESTS / "rebalancer")
        found = {}
        for each in rendered.split("\n---\n"):
            found[re.search(r"^kind: (\w+)$", each, re.MULTILINE)[1]] = each
        granted = set()
        for kind in ("Role", "ClusterRole"):
            rules = re.findall(r"- apiGroups:\n((?:  .*\n)+)", found[kind] + "\n")
            granted |= {(resource, verb) for rule in rules
                        for resource in items(rule, "  resources")
                        for verb in items(rule, "  verbs")}
        watched = {"nodes", "pods", "namespaces", "persistentvolumeclaims", "persistentvolumes",
                   "poddisruptionbudgets", "priorityclasses"}
        self.assertEqual(granted, {(each, verb) for each in watched for verb in ("list", "watch")} |
                         {("nodereports", "list"), ("pods", "get"), ("pods/eviction", "create"),
                          ("events", "create"), ("events", "patch"),
                          ("leases", "create"), ("leases", "get"), ("leases", "update")})
        self.assertIn("resourceNames:\n  - forestall-rebalance\n", found["Role"])
        pod = found["Deployment"]
        for line in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "type: RuntimeDefault",
                     "allowPrivilegeEscalation: false", "automountServiceAccountToken: false"):
            self.assertIn(line, pod)
        for word in ("hostPID", "hostPath", "privileged", "add:"):
            self.assertNotIn(word, pod)
        image = re.search(r"image: (\S+)", self.rendered["base"]["DaemonSet"])[0]
        self.assertIn(image, pod)

    def test_placeholders_add_one_role_in_their_namespace(self) -> None:
        base, overlay = ({re.search(r"^kind: (\w+)$", each, re.MULTILINE)[1] + "/" +
                          re.search(r"^  name: (\S+)$", each, re.MULTILINE)[1]: each
                          for each in render(MANIFESTS / folder).split("\n---\n")}
                         for folder in ("rebalancer", "overlays/placeholder"))
        is_of_policy = re.compile("ConfigMap/|Deployment/").match  # the name has a hash
        for name in base:
            if not is_of_policy(name):
                self.assertEqual(base[name].strip(), overlay[name].strip())
        added = {name for name in overlay if name not in base and not is_of_policy(name)}
        own = "forestall-rebalance-placeholders"
        self.assertEqual(added, {"Namespace/forestall-placeholders", f"Role/{own}",
                                 f"RoleBinding/{own}", f"NetworkPolicy/{own}",
                                 "PriorityClass/forestall-placeholder"})
        role = overlay[f"Role/{own}"]
        self.assertEqual(role.count("- apiGroups:"), 1)
        self.assertEqual(items(role, "  resources"), {"pods"})
        self.assertEqual(items(role, "  verbs"), {"create", "delete"})
        self.assertIn("namespace: forestall-placeholders", role)
        self.assertIn("enforce: restricted", overlay["Namespace/forestall-placeholders"])
        priority = overlay["PriorityClass/forestall-placeholder"]
        self.assertIn("preemptionPolicy: Never", priority)
        self.assertIn("value: -1000", priority)
        defaults = (TOP / "userspace/rebalance/policy.h").read_text()
        for name in ("forestall-placeholders", "forestall-placeholder"):
            self.assertIn(f'= "{name}";', defaults)

    def test_rebalancer_with_prometheus_reads_one_secret_more(self) -> None:
        base, overlay = ({each.strip() for each in render(MANIFESTS / folder).split("\n---\n")}
                         for folder in ("rebalancer", "overlays/prometheus"))
        added = {re.search(r"^kind: (\w+)$", each, re.MULTILINE)[1]: each
                 for each in overlay - base}
        self.assertEqual(set(added), {"Role", "RoleBinding", "NetworkPolicy", "ConfigMap",
                                      "Deployment"})
        role = added["Role"]
        self.assertEqual(role.count("- apiGroups:"), 1)
        self.assertEqual(items(role, "  resources"), {"secrets"})
        self.assertEqual(items(role, "  verbs"), {"get"})
        self.assertIn("namespace: monitoring", role)
        name = items(role, "  resourceNames")
        policy = (MANIFESTS / "overlays/prometheus/policy.yaml").read_text()
        self.assertEqual(name, set(re.findall(r"name: (forestall-[\w-]+)", policy)))

    def test_rebalancer_lists_no_more_than_its_memory(self) -> None:
        cluster = TOP / "userspace/cluster"
        lists = int(re.search(r"kBytesMax = std::uint64_t\{(\d+)\} << 30;",
                              (cluster / "snapshot_lister.h").read_text())[1])
        pods = int(re.search(r"kPodsBytesMax = std::size_t\{(\d+)\} << 20;",
                             (cluster / "cluster_informers.cc").read_text())[1])
        deployment = (MANIFESTS / "rebalancer/deployment.yaml").read_text()
        limit = int(re.search(r"limits: \{memory: (\d+)Gi\}", deployment)[1])
        # Listed anew, the pods are there twice.
        self.assertLessEqual(lists * 1024 + 2 * pods, limit * 1024)

    def test_rebalancer_has_a_valid_policy(self) -> None:
        for folder in ("rebalancer", "overlays/placeholder", "overlays/prometheus"):
            policy = MANIFESTS / folder / "policy.yaml"
            ran = subprocess.run([FORESTALL, "check-config", "--policy-config-file", str(policy)],
                                 capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertEqual('"reserve": "placeholder"' in ran.stdout, "placeholder" in folder)

    def test_component_for_own_nodes_renders(self) -> None:
        with tempfile.TemporaryDirectory(dir=MANIFESTS.parent) as scratch:
            folder = pathlib.Path(scratch)
            (folder / "kustomization.yaml").write_text(
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
                "resources: [../kubernetes/base]\n"
                "components: [../kubernetes/components/own-node]\n")
            found = objects(render(folder))
        account = re.search(r"serviceAccountName: (\S+)", found["DaemonSet"])[1]
        self.assertIn(f"system:serviceaccount:forestall:{account}",
                      found["ValidatingAdmissionPolicy"])
        self.assertIn("policyName: forestall-own-node", found["ValidatingAdmissionPolicyBinding"])

    def test_component_for_the_prometheus_operator_renders(self) -> None:
        with tempfile.TemporaryDirectory(dir=MANIFESTS.parent) as scratch:
            folder = pathlib.Path(scratch)
            (folder / "kustomization.yaml").write_text(
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
                "resources: [../kubernetes/base]\n"
                "components: [../kubernetes/components/pod-monitor]\n")
            found = objects(render(folder))
        self.assertIn("- interval: 15s\n    port: metrics", found["PodMonitor"])
        self.assertIn("app.kubernetes.io/name: forestall", found["PodMonitor"])

    def test_component_that_keeps_the_guard_renders(self) -> None:
        with tempfile.TemporaryDirectory(dir=MANIFESTS.parent) as scratch:
            folder = pathlib.Path(scratch)
            (folder / "kustomization.yaml").write_text(
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
                "resources: [../kubernetes/overlays/guard]\n"
                "components: [../kubernetes/components/kept-guard]\n")
            found = objects(render(folder))
        daemon_set = found["DaemonSet"]
        self.assertIn("        - --keep-guard\n        - /host/guard\n", daemon_set)
        # It is not mounted by the container with the credentials.
        self.assertEqual(daemon_set.count("mountPath: /host/guard"), 1)
        agent = daemon_set[:daemon_set.index("name: cluster")]
        self.assertIn("mountPath: /host/guard", agent)
        self.assertIn("path: /sys/fs/bpf/forestall\n          type: DirectoryOrCreate", daemon_set)


def kubectl_renders() -> bool:
    """Whether there is a kubectl that has the fields of kustomize 4."""
    if shutil.which("kubectl") is None:
        return False
    ran = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True,
                         text=True)
    version = re.search(r'"minor": "(\d+)', ran.stdout)
    return version is not None and int(version[1]) >= 21


if __name__ == "__main__":
    FORESTALL = sys.argv.pop(1)
    if not kubectl_renders():
        print("not applicable: needs kubectl 1.21 or later")
        sys.exit(77)
    unittest.main()
