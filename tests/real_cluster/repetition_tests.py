# SPDX-License-Identifier: Apache-2.0
"""A container that the kubelet starts again in a pod which the agent has killed."""

from __future__ import annotations

import os
import re
import select
import signal
import time

import fixture
from fixture import (PODS, ClusterCase, agent_pod, container_pids, hog, last_end, report, restarts)

# The agent kills it again within 3 s of the kill (EvictedPodWatch::kWatchedFor). On a machine that
# compiles, the kubelet may need longer to start it, or the API server to report the deletion.
ATTEMPTS = 5
EXIT_SECONDS_MAX = 10
# Of the pod. The container ignores SIGTERM: it exits in time only if the agent kills it.
GRACE_SECONDS = 60


class RepetitionTests(ClusterCase):
    def agent_log(self) -> str:
        return fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "agent")

    def repetitions(self) -> int:
        return len(re.findall(r"event=decision .*reason=pod-runs-again", self.agent_log()))

    def restarted(self, name: str) -> tuple[dict, float]:
        """Kills the leaker while `forestall cluster` cannot request its eviction. The pod when the
        kubelet has started its container again, and how long that took."""
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        leaker = container_pids(pod)[0]
        with self.exits(leaker, "the leaker is killed"):
            os.kill(leaker, signal.SIGUSR1)
        ended = time.monotonic()
        again = fixture.lab.api.wait(
            PODS, lambda _, each: restarts(each) == 1
            and "running" in each["status"]["containerStatuses"][0]["state"],
            f"{name} runs again", fieldSelector=f"metadata.name={name}",
            resourceVersion=pod["metadata"]["resourceVersion"])
        return again, time.monotonic() - ended

    def attempt(self, name: str) -> bool:
        """Whether the container that ran again was killed. It was too late for that otherwise."""
        self.create(hog(name, 1600, 0, "wait", terminationGracePeriodSeconds=GRACE_SECONDS))
        self.wait_until_known()
        kills = self.repetitions()
        cluster = container_pids(agent_pod(), "cluster")[0]
        os.kill(cluster, signal.SIGSTOP)
        try:
            pod, seconds = self.restarted(name)
            pidfd = os.pidfd_open(container_pids(pod)[0])
            self.addCleanup(os.close, pidfd)
        finally:
            os.kill(cluster, signal.SIGCONT)
        begun = time.monotonic()
        ended = bool(select.select([pidfd], [], [], EXIT_SECONDS_MAX)[0])
        report(f"{name}: restarted after {seconds:.2f} s; its second end after the eviction",
               f"{time.monotonic() - begun:.2f} s" if ended else "none")
        if not ended:
            self.assertEqual(self.repetitions(), kills)
            self.delete(name)
            return False
        self.assertGreater(self.repetitions(), kills)
        last = fixture.lab.api.wait(
            PODS, lambda event, _: event == "DELETED", f"{name} is deleted",
            fieldSelector=f"metadata.name={name}",
            resourceVersion=pod["metadata"]["resourceVersion"])
        self.assertEqual(last_end(last).get("exitCode"), 137)
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
        return True

    def test_a8_a_container_that_starts_in_an_evicted_pod_is_killed_again(self) -> None:
        """The eviction is requested only when the kubelet has restarted the container."""
        self.assertTrue(any(self.attempt(f"restless{i}") for i in range(ATTEMPTS)),
                        f"in none of {ATTEMPTS} attempts")
