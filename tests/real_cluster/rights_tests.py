# SPDX-License-Identifier: Apache-2.0
"""The roles of the manifests: every right is used by the tests before these, none is missing, and
without it the log names it. What was used is in the audit log of the API server."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
from collections.abc import Iterator

import fixture
from fixture import (AGENTS, PODS, ClusterCase, agent_pod, container_pids, hog, report,
                     restarts)
from lab import PATIENCE, is_ready

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BUDGETS = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
# (group, resource, verb)
Right = tuple[str, str, str]
# Of the manifests, but not used in this cluster, and why.
NOT_USED = {
    ("", "pods/status", "patch"): "DisruptionTarget is of API servers from 1.26 on",
    ("metrics.k8s.io", "nodes", "list"): "for policies that use metrics; there is no metrics API",
    ("metrics.k8s.io", "pods", "list"): "for policies that use metrics; there is no metrics API",
    ("forestall.dev", "nodereports", "create"): "the audit log has an apply as a patch only",
    ("", "pods", "get"): "for a pod whose eviction had no answer, or an error of the server",
    ("", "events", "patch"): "for a pod that is evicted again, or after 25 Events in a burst",
}


def expand(rules: list[dict]) -> Iterator[Right]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def without(rules: list[dict], removed: set[Right]) -> list[dict]:
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            for group, resource, verb in expand(rules) if (group, resource, verb) not in removed]


def requests(account: str) -> Iterator[tuple[Right, int]]:
    """Rights that the requests of the account needed, with the status of the answer."""
    for each in fixture.lab.audit():
        if each["user"]["username"] != f"system:serviceaccount:forestall:{account}":
            continue
        if "resource" not in each.get("objectRef", {}):  # /version, and the lists of kinds
            continue
        about = each["objectRef"]
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        yield (about.get("apiGroup", ""), resource, each["verb"]), each["responseStatus"]["code"]


class RightsTests(ClusterCase):
    def check_rights(self, account: str, rules: list[dict]) -> None:
        granted = set(expand(rules))
        used, refused = set(), set()
        for right, code in requests(account):
            (refused if code == 403 else used).add(right)
        self.assertTrue(used, "the audit log has no request")
        self.assertEqual(refused, set(), "rights that the role lacks")
        unused = granted - used
        for right in sorted(unused & NOT_USED.keys()):
            report(f"{account}: not used here: {' '.join(filter(None, right))}", NOT_USED[right])
        self.assertEqual(unused - NOT_USED.keys(), set(), "rights that no test needed")

    def test_x_every_right_of_the_node_is_used(self) -> None:
        self.check_rights("forestall", fixture.lab.api.get(f"{ROLES}/forestall")["rules"])

    def test_x2_every_right_of_the_rebalancer_is_used(self) -> None:
        role = fixture.lab.api.get("/apis/rbac.authorization.k8s.io/v1/namespaces/forestall/roles/"
                                   "forestall-rebalance")
        self.check_rights("forestall-rebalance", role["rules"] + fixture.lab.api.get(
            f"{ROLES}/forestall-rebalance")["rules"])

    def wait_for_log(self, since: str, texts: set[str]) -> None:
        """Until the log of `forestall cluster` has all texts."""
        self.wait_for(lambda: texts <= {
            each for each in texts if each in fixture.lab.kubectl(
                "-n", "forestall", "logs", "ds/forestall", "-c", "cluster", "--since-time", since)},
            f"the log names {sorted(texts)}")

    def set_rules(self, rules: list[dict]) -> None:
        role = fixture.lab.api.get(f"{ROLES}/forestall")
        fixture.lab.api.call("PUT", f"{ROLES}/forestall", {**role, "rules": rules})

    def restart_cluster(self) -> str:
        """Kills `forestall cluster`; when the kubelet has started it again."""
        old = agent_pod()
        for pid in container_pids(old, "cluster"):
            os.kill(pid, signal.SIGKILL)

        def began(pod: dict) -> str:
            return next(each["state"].get("running", {}).get("startedAt", "")
                        for each in pod["status"]["containerStatuses"] if each["name"] == "cluster")
        new = fixture.lab.api.wait(
            AGENTS, lambda _, each: restarts(each) > restarts(old) and began(each) != "",
            "`forestall cluster` is back")
        return began(new)

    def test_y_the_log_names_each_missing_right(self) -> None:
        """The agent itself kills all the same: it needs no right."""
        rules = copy.deepcopy(fixture.lab.api.get(f"{ROLES}/forestall")["rules"])
        self.addCleanup(self.set_rules, rules)
        self.create(hog("orphan", 1600, 0, "wait", restartPolicy="Never"))
        self.wait_until_known()
        leaker = container_pids(fixture.lab.api.get(f"{PODS}/orphan"))[0]
        all_rights = set(expand(rules))
        reading = {("", "pods", "list"), ("", "nodes", "get")}
        self.set_rules(without(rules, all_rights - {("", "nodes", "get")}))
        since = self.restart_cluster()
        self.wait_for_log(since, {'cannot list resource \\"pods\\"',
                                  'cannot patch resource \\"nodes/status\\"',
                                  'cannot patch resource \\"nodereports\\"'})
        self.set_rules(without(rules, {("", "nodes", "get"), ("", "pods", "watch")}))
        self.restart_cluster()
        self.wait_for_log(since, {'cannot get resource \\"nodes\\"',
                                  'cannot watch resource \\"pods\\"'})
        self.set_rules(without(rules, all_rights - reading - {("", "pods", "watch")}))
        self.wait_until_known()
        with self.exits(leaker, "the leaker is killed"):
            os.kill(leaker, signal.SIGUSR1)
        # The taint is of the pressure before the kill.
        self.wait_for_log(since, {'cannot create resource \\"pods/eviction\\"',
                                  'cannot create resource \\"events\\"',
                                  'cannot patch resource \\"nodes\\"'})

    def test_y2_the_log_names_the_missing_right_to_delete_pods(self) -> None:
        """It is needed if a PodDisruptionBudget refuses the eviction."""
        rules = copy.deepcopy(fixture.lab.api.get(f"{ROLES}/forestall")["rules"])
        self.addCleanup(self.set_rules, rules)
        fixture.lab.api.call("POST", BUDGETS, {
            "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "held"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}})
        self.addCleanup(fixture.lab.api.call, "DELETE", f"{BUDGETS}/held")
        pod = hog("held", 1600, 0, "wait", restartPolicy="Never")
        pod["metadata"]["labels"] = {"app": "held"}
        self.create(pod)
        self.wait_until_known()
        since = fixture.lab.api.get(f"{PODS}/held")["metadata"]["creationTimestamp"]
        leaker = container_pids(fixture.lab.api.get(f"{PODS}/held"))[0]
        self.set_rules(without(rules, {("", "pods", "delete")}))
        with self.exits(leaker, "the leaker is killed"):
            os.kill(leaker, signal.SIGUSR1)
        self.wait_for_log(since, {'cannot delete resource \\"pods\\"'})

    def last_words(self) -> str:
        """Log of the container `cluster` to its end, which comes with the deletion of its pod."""
        old = agent_pod()
        name = old["metadata"]["name"]
        follow = subprocess.Popen(
            ["kubectl", "-n", "forestall", "logs", "-f", "--tail=1", name, "-c", "cluster"],
            env=os.environ | {"KUBECONFIG": str(fixture.lab.kubeconfig)}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            begun = follow.stdout.readline()
            fixture.lab.api.call("DELETE", f"{AGENTS}/{name}")
            return begun + follow.communicate(timeout=PATIENCE)[0]
        finally:
            follow.kill()
            fixture.lab.api.wait(
                AGENTS, lambda _, each: is_ready(each)
                and each["metadata"]["uid"] != old["metadata"]["uid"], "the next agent is ready")

    def test_y3_the_log_names_each_missing_right_of_the_namespace(self) -> None:
        """They are needed at the end of `forestall cluster`, which removes condition and taint
        without them."""
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/forestall/roles/forestall"
        role = fixture.lab.api.get(path)
        self.addCleanup(lambda: fixture.lab.api.call(
            "PUT", path, {**fixture.lab.api.get(path), "rules": role["rules"]}))
        for right in sorted(expand(role["rules"])):
            with self.subTest(right):
                fixture.lab.api.call("PUT", path, {**fixture.lab.api.get(path),
                                                   "rules": without(role["rules"], {right})})
                log = self.last_words()
                self.assertIn(f'cannot {right[2]} resource \\"{right[1]}\\"', log)
                self.assertIn("condition=removed", log)
