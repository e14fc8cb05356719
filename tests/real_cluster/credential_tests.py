# SPDX-License-Identifier: Apache-2.0
"""Token and authority of `forestall cluster` are replaced while it runs."""

from __future__ import annotations

import os
import pathlib
import re
import signal

from http.client import HTTPSConnection

import fixture
from fixture import AGENTS, PODS, ClusterCase, agent_pod, container_pids, hog, report, restarts
from lab import API_ADDRESS

FORESTALL = "/api/v1/namespaces/forestall"
VOLUME = "volumes/kubernetes.io~projected/token"


def token_folder() -> pathlib.Path:
    """Of the container `cluster`, as the kubelet writes it on the node."""
    return pathlib.Path("/var/lib/kubelet/pods") / agent_pod()["metadata"]["uid"] / VOLUME


def replace_token(token: str) -> None:
    """As the kubelet's atomic writer: a new folder with all files, then the link to it."""
    volume = token_folder()
    old = (volume / "..data").resolve()
    new = old.with_name("..by-the-test")
    new.mkdir()
    for each in old.iterdir():
        (new / each.name).write_bytes(each.read_bytes())
        (new / each.name).chmod(0o644)
    (new / "token").write_text(token)
    new.chmod(0o755)
    link = volume / "..data-by-the-test"
    link.symlink_to(new.name)
    link.rename(volume / "..data")


def cluster_log() -> str:
    """Of the running container, from the node's disk: without API server and kubelet."""
    pod = agent_pod()["metadata"]
    folder = pathlib.Path("/var/log/pods") / f"forestall_{pod['name']}_{pod['uid']}" / "cluster"
    newest = max(folder.glob("*.log"), key=lambda each: int(each.stem))
    return newest.read_text()


def is_accepted(token: str) -> bool:
    connection = HTTPSConnection(API_ADDRESS, timeout=30, context=fixture.lab.api.context)
    connection.request("GET", PODS, headers={"Authorization": f"Bearer {token}"})
    status = connection.getresponse().status
    connection.close()
    return status != 401


class CredentialTests(ClusterCase):
    def kill_during(self, name: str, problem: str) -> None:
        """Kills the leaker, and waits until an eviction has failed with `problem`."""
        leaker = container_pids(fixture.lab.api.get(f"{PODS}/{name}"))[0]
        failed = re.compile(f"event=eviction problem=.*{problem}")
        seen = len(failed.findall(cluster_log()))
        with self.exits(leaker, "the leaker is killed"):
            os.kill(leaker, signal.SIGUSR1)
        self.wait_for(lambda: len(failed.findall(cluster_log())) > seen, f"eviction: {problem}")

    def deleted_after(self, name: str, action) -> None:
        """The pod is deleted after `action`, and its deletion has not begun before."""
        pods = fixture.lab.api.get(PODS)
        self.assertEqual([each["metadata"].get("deletionTimestamp") for each in pods["items"]
                          if each["metadata"]["name"] == name], [None])
        action()
        fixture.lab.api.wait(PODS, lambda event, _: event == "DELETED", f"{name} is deleted",
                             fieldSelector=f"metadata.name={name}",
                             resourceVersion=pods["metadata"]["resourceVersion"])

    def brief_token(self) -> tuple[str, str]:
        """A token of the service account that is valid while a Secret exists, and its path."""
        secrets = f"{FORESTALL}/secrets"
        secret = fixture.lab.api.call("POST", secrets, {"metadata": {"name": "brief"}})
        answer = fixture.lab.api.call("POST", f"{FORESTALL}/serviceaccounts/forestall/token", {
            "spec": {"expirationSeconds": 600, "boundObjectRef": {
                "kind": "Secret", "apiVersion": "v1", "name": "brief",
                "uid": secret["metadata"]["uid"]}}})
        return answer["status"]["token"], f"{secrets}/brief"

    def test_a6_an_expired_token_delays_the_eviction_only(self) -> None:
        """The kubelet is stopped, or it would replace the token at any time. When it runs again,
        it does, and the killed pod is evicted."""
        innocent = self.lasting_pod()
        name = self.create(hog("unauthorized", 1600, 0, "wait"))
        self.wait_until_known()
        kills, agent = len(self.delays()), agent_pod()
        token, secret = self.brief_token()
        kubelet = fixture.lab.services["kubelet"].process.pid
        os.kill(kubelet, signal.SIGSTOP)
        try:
            replace_token(token)
            self.assertTrue(is_accepted(token))
            fixture.lab.api.call("DELETE", secret)
            self.wait_for(lambda: not is_accepted(token), "the token is not valid")
            self.kill_during(name, "401")
        finally:
            os.kill(kubelet, signal.SIGCONT)
        # A change of the pod, so that the kubelet compares its volumes now.
        self.deleted_after(name, lambda: fixture.lab.api.call(
            "PATCH", f"{AGENTS}/{agent['metadata']['name']}",
            {"metadata": {"annotations": {"token": "expired"}}}, "application/merge-patch+json"))
        self.assertNotEqual((token_folder() / "token").read_text(), token)
        self.assert_recovered(agent, kills, innocent, "token expired")

    def lasting_pod(self) -> list[int]:
        """Processes of a pod that must not die."""
        self.create(hog("innocent", 100, 0))
        return container_pids(fixture.lab.api.get(f"{PODS}/innocent"))

    def assert_recovered(self, agent: dict, kills: int, innocent: list[int], what: str) -> None:
        """Nothing was started again, and a new pod reaches the agent."""
        self.create(hog("next", 1, 0))
        self.wait_until_known()
        report(f"{what}: crossing to SIGKILL, at most", f"{self.assert_prompt(kills + 1, what)} us")
        after = agent_pod()
        self.assertEqual((after["metadata"]["uid"], restarts(after)),
                         (agent["metadata"]["uid"], restarts(agent)))
        self.assertEqual(container_pids(fixture.lab.api.get(f"{PODS}/innocent")), innocent)
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)

    def test_a7_a_replaced_authority_delays_the_eviction_only(self) -> None:
        """The API server has a certificate of a new authority, which `forestall cluster` finds in
        its volume when controllers and kubelet have been started again with it."""
        innocent = self.lasting_pod()
        name = self.create(hog("distrustful", 1600, 0, "wait"))
        self.wait_until_known()
        kills, agent = len(self.delays()), agent_pod()
        old = (token_folder() / "ca.crt").read_text()
        fixture.lab.replace_authority()
        for service in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            fixture.lab.restart_service(service)
        self.kill_during(name, "certificate")
        fixture.lab.api.wait(f"{FORESTALL}/configmaps",
                             lambda _, each: each["data"]["ca.crt"] != old, "the new authority",
                             fieldSelector="metadata.name=kube-root-ca.crt")
        self.assertEqual((token_folder() / "ca.crt").read_text(), old)
        self.deleted_after(name, lambda: fixture.lab.restart_service("kubelet"))
        self.assertNotEqual((token_folder() / "ca.crt").read_text(), old)
        self.assert_recovered(agent, kills, innocent, "authority replaced")
