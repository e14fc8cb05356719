# SPDX-License-Identifier: Apache-2.0
"""A soft threshold: the pod is evicted through the API server with its own grace period, and the
agent kills it when that of evictionMaxPodGracePeriod is over."""

from __future__ import annotations

import os
import select
import time

import fixture
from fixture import (AGENTS, PODS, ClusterCase, agent_config, agent_pod, begin, container_pids,
                     hog, last_end, report, write_overlay)
from lab import is_ready

SOFT = "512Mi"
# Between the soft threshold and the hard one.
LEAK = 1150
# Of the pod, and of evictionMaxPodGracePeriod, in seconds.
POD_GRACE, GRACE_MAX = 30, 4


class SoftTests(ClusterCase):
    def apply(self, more: str) -> None:
        """An agent with these lines in its configuration."""
        old = agent_pod()["metadata"]["uid"]
        overlay = fixture.lab.folder / "overlay"
        write_overlay(overlay, agent_config(more))
        fixture.lab.kubectl("apply", "-k", overlay)
        fixture.lab.api.wait(AGENTS, lambda _, each: is_ready(each)
                             and each["metadata"]["uid"] != old, "the next agent is ready")
        self.wait_until_known()

    def test_a8b_a_soft_eviction_leaves_the_pod_its_grace(self) -> None:
        """The process ignores SIGTERM, as the first one of a container does."""
        self.addCleanup(self.apply, "")
        self.apply(f"evictionSoft: {{allocatableMemory.available: {SOFT}}}\n"
                   f"evictionSoftGracePeriod: {{allocatableMemory.available: 1s}}\n"
                   f"evictionMaxPodGracePeriod: {GRACE_MAX}\n")
        name = self.create(hog("soft", LEAK, 0, "wait", terminationGracePeriodSeconds=POD_GRACE))
        self.wait_until_known()
        pod = fixture.lab.api.get(f"{PODS}/{name}")
        pidfd = os.pidfd_open(container_pids(pod)[0])
        self.addCleanup(os.close, pidfd)
        begin(pod)
        deleted = fixture.lab.api.wait(
            PODS, lambda _, each: "deletionTimestamp" in each["metadata"], "its deletion begins",
            fieldSelector=f"metadata.name={name}",
            resourceVersion=pod["metadata"]["resourceVersion"])
        begun = time.monotonic()
        self.assertEqual(deleted["metadata"]["deletionGracePeriodSeconds"], POD_GRACE)
        self.assertEqual(select.select([pidfd], [], [], 0)[0], [], "killed at once")
        self.assertTrue(select.select([pidfd], [], [], POD_GRACE)[0], "not killed")
        seconds = time.monotonic() - begun
        report("soft eviction: from the deletion to the kill", f"{seconds:.1f} s")
        self.assertGreater(seconds, GRACE_MAX - 1, "the pod has less than its grace")
        self.assertLess(seconds, POD_GRACE / 2, "the kubelet's, not the agent's")
        ended = fixture.lab.api.wait(
            PODS, lambda event, _: event == "DELETED", f"{name} is deleted",
            fieldSelector=f"metadata.name={name}",
            resourceVersion=pod["metadata"]["resourceVersion"])
        self.assertEqual(last_end(ended).get("exitCode"), 137)
        event = fixture.lab.api.wait(
            "/api/v1/namespaces/default/events", lambda *_: True, "an Event of the eviction",
            fieldSelector=f"involvedObject.uid={pod['metadata']['uid']},reason=Evicted")
        annotations = event["metadata"]["annotations"]
        self.assertEqual((annotations["starved_resource"], annotations["offending_containers"]),
                         ("memory", "c"))
        report("Event of the soft eviction", event["message"])
        self.assertEqual(fixture.kernel_kills.read(), 0, fixture.kernel_kills.lines)
