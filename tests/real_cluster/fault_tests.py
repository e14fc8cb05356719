# SPDX-License-Identifier: Apache-2.0
"""`forestall cluster` behind an API server that is slow, refuses, or answers with garbage."""

from __future__ import annotations

import os
import signal

import fixture
from fixture import AGENTS, PODS, ClusterCase, agent_pod, container_pids, hog, report
from lab import PROXY_ADDRESS, is_ready
from proxy import ANSWERS, PORT, Proxy

FAULTS = (*ANSWERS, "410", "watch cut", "slow")


class FaultTests(ClusterCase):
    def use_server(self, address: str) -> None:
        """The address for `forestall cluster`, in place of the one that the kubelet gives it. An
        empty one: that one again."""
        old = agent_pod()["metadata"]["uid"]
        server = (f"KUBERNETES_SERVICE_HOST={address}", f"KUBERNETES_SERVICE_PORT={PORT}") \
            if address else ("KUBERNETES_SERVICE_HOST-", "KUBERNETES_SERVICE_PORT-")
        fixture.lab.kubectl("-n", "forestall", "set", "env", "ds/forestall", "-c", "cluster",
                            *server)
        fixture.lab.api.wait(
            AGENTS, lambda _, each: is_ready(each) and each["metadata"]["uid"] != old,
            f"an agent that uses {address or 'its own server'}")

    def check_fault(self, proxy: Proxy, fault: str, number: int) -> None:
        """The leaker is killed during the fault, and evicted when it is over, also if the kubelet
        has started its container again."""
        name = self.create(hog(f"leaker{number}", 1600, 0, "wait"))
        self.wait_until_known()
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        leaker = container_pids(pod)[0]
        proxy.set_fault(fault)
        # An event for the watch.
        fixture.lab.api.call("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"fault": "yes"}}},
                             "application/merge-patch+json")
        self.wait_for(lambda: proxy.faulty > 0, f"a request with the fault {fault}")
        with self.exits(leaker, "the leaker is killed"):
            os.kill(leaker, signal.SIGUSR1)
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
        proxy.set_fault("")
        fixture.lab.api.wait(PODS, lambda event, _: event == "DELETED", f"{name} is deleted",
                             fieldSelector=f"metadata.name={name}",
                             resourceVersion=pod["metadata"]["resourceVersion"])

    def test_a5_faults_of_the_api_server_delay_no_kill(self) -> None:
        self.create(hog("innocent", 100, 0))
        innocent = container_pids(fixture.lab.api.get(f"{PODS}/innocent"))
        proxy = Proxy(fixture.lab)
        self.addCleanup(proxy.close)
        self.use_server(PROXY_ADDRESS)
        self.addCleanup(self.use_server, "")
        delays = []
        for number, fault in enumerate(FAULTS):
            with self.subTest(fault):
                self.check_fault(proxy, fault, number)
                delays.append(f"{fault}: {self.assert_prompt(number + 1, fault)} us")
                self.assertEqual(container_pids(fixture.lab.api.get(f"{PODS}/innocent")), innocent)
        self.wait_until_known()
        report("crossing to SIGKILL, at most, in each fault of the API server", ", ".join(delays))
