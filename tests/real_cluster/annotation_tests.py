# SPDX-License-Identifier: Apache-2.0
"""Annotations forestall.dev/... of pods: effective in the namespaces of podAnnotations only.

A leaker of 1,000 MiB and a pod of 400 MiB together exceed the threshold; each of them alone does
not. Both are BestEffort, so without annotations the leaker is killed."""

from __future__ import annotations

import contextlib
import glob
import re

import fixture
from fixture import ANNOTATING, PODS, ClusterCase, begin, container_pids, hog, report, restarts
from lab import LabError

NAMESPACES = "/api/v1/namespaces"
ANNOTATING_PODS = f"{NAMESPACES}/{ANNOTATING}/pods"
LEAK, BYSTANDER = 1000, 400


def containers(uid: str) -> list[str]:
    """Cgroups of the containers of a BestEffort pod that have not ended."""
    return glob.glob(f"/sys/fs/cgroup/memory/{fixture.lab.cgroups.name}/kubepods/besteffort/"
                     f"pod{uid}/*/cgroup.procs")


class AnnotationTests(ClusterCase):
    def annotating_pods(self) -> str:
        """The path of the pods in the namespace that podAnnotations lists."""
        api = fixture.lab.api
        with contextlib.suppress(LabError):
            api.get(f"{NAMESPACES}/{ANNOTATING}")
            return ANNOTATING_PODS
        api.call("POST", NAMESPACES, {"metadata": {"name": ANNOTATING}})
        api.wait(f"{NAMESPACES}/{ANNOTATING}/serviceaccounts",
                 lambda _, each: bool(each.get("secrets")), "its service account")
        return ANNOTATING_PODS

    def annotated(self, pod: dict, annotation: str, pods: str) -> dict:
        """The pod, running with the annotation."""
        if annotation:
            pod["metadata"]["annotations"] = {f"forestall.dev/{annotation}": "true"}
        uids: list[str] = []
        # After the deletion of the pod, which the API shows before its processes have ended: they
        # would count in the next test.
        self.addCleanup(lambda: self.wait_for(lambda: not any(map(containers, uids)), "they end"))
        made = fixture.lab.api.get(f"{pods}/{self.create(pod, pods)}")
        uids.append(made["metadata"]["uid"])
        return made

    def check_bystander_dies(self, leaker: dict, pods: str) -> None:
        """The leak of the pod ends "bystander" of `pods`, and nothing else."""
        kills, pids = len(self.delays()), container_pids(leaker)
        self.evicted("bystander", lambda: begin(leaker), pods)
        self.assert_prompt(kills + 1, "one kill")
        namespace, name = (leaker["metadata"][each] for each in ("namespace", "name"))
        after = fixture.lab.api.get(f"{NAMESPACES}/{namespace}/pods/{name}")
        self.assertEqual(container_pids(after), pids)
        self.assertNotIn("deletionTimestamp", after["metadata"])
        self.assertEqual(restarts(after), 0)

    def wait_for_counts(self, **counts: int) -> None:
        """Until the agent's status has these counts of annotated pods."""
        def has_them() -> bool:
            pods = self.pods_of_agent()
            return all(int(pods.get(name, 0)) == count for name, count in counts.items())
        self.wait_for(has_them, f"the agent has {counts}")

    def test_j1_a_protected_leaker_lives_and_its_neighbour_dies(self) -> None:
        """The neighbour has the same annotation, in a namespace that may not set it."""
        leaker = self.annotated(hog("leaker", LEAK, 0, "wait"), "protected",
                                self.annotating_pods())
        self.annotated(hog("bystander", BYSTANDER, 0), "protected", PODS)
        self.wait_until_known()
        self.wait_for_counts(annotated=1)
        problems = self.pods_of_agent()["annotationProblems"]
        self.assertEqual([(each["pod"], each["annotation"]) for each in problems],
                         [("default/bystander", "protected")])
        event = fixture.lab.api.wait(
            "/api/v1/namespaces/default/events", lambda *_: True, "an Event of the annotation",
            fieldSelector="involvedObject.name=bystander,reason=AnnotationWithoutEffect")
        self.assertIn("forestall.dev/protected", event["message"])
        self.assertIn(problems[0]["problem"], event["message"])
        report("status of the annotation without effect", problems[0]["problem"])
        self.check_bystander_dies(leaker, PODS)
        log = fixture.lab.kubectl("-n", "forestall", "logs", "ds/forestall", "-c", "agent")
        self.assertEqual(len(re.findall(r"pod-annotation.*default/bystander", log)), 1)

    def test_j2_a_preferred_pod_dies_before_the_leaker(self) -> None:
        pods = self.annotating_pods()
        leaker = self.annotated(hog("leaker", LEAK, 0, "wait"), "", PODS)
        self.annotated(hog("bystander", BYSTANDER, 0), "prefer", pods)
        self.wait_until_known()
        self.wait_for_counts(preferred=1)
        self.check_bystander_dies(leaker, pods)

    def test_j3_an_avoided_leaker_lives_while_another_pod_can_die(self) -> None:
        leaker = self.annotated(hog("leaker", LEAK, 0, "wait"), "avoid", self.annotating_pods())
        self.annotated(hog("bystander", BYSTANDER, 0), "", PODS)
        self.wait_until_known()
        self.wait_for_counts(avoided=1)
        self.check_bystander_dies(leaker, PODS)

    def test_j4_an_annotation_counts_from_its_change_on(self) -> None:
        """It is removed from a running pod, which is killed then, and is set for another one."""
        pods = self.annotating_pods()
        leaker = self.annotated(hog("leaker", LEAK, 0, "wait"), "", pods)
        self.annotated(hog("bystander", BYSTANDER, 0), "protected", pods)
        self.wait_until_known()
        self.wait_for_counts(annotated=1)
        for name, value in (("bystander", None), ("leaker", "true")):
            fixture.lab.api.call(
                "PATCH", f"{pods}/{name}",
                {"metadata": {"annotations": {"forestall.dev/protected": value}}},
                "application/merge-patch+json")
            self.wait_for_counts(annotated=0 if value is None else 1)
        self.check_bystander_dies(leaker, pods)
