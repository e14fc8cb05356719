# SPDX-License-Identifier: Apache-2.0
"""`--feature-gates EvictionsInBackground=true` with a webhook of the API server that moves a pod by
itself, as for virtual machines."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading

import fixture
from fixture import PODS, report
from lab import PROXY_ADDRESS, Lab
from move_fixture import MoveCase, name_of, node_of, of
from move_tests import EVERY_SECOND, TAINTS
from rebalancer import rebalancer

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PORT = 9443
ANNOTATION = "descheduler.alpha.kubernetes.io/request-evict-only"
IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
GATE = "--feature-gates=EvictionsInBackground=true"
WORDS = "Eviction triggered evacuation of the machine"


class Webhook:
    """Answers each eviction of a pod with 429 and WORDS. `evictions`: the pods, in their order."""

    def __init__(self, lab: Lab) -> None:
        self.evictions: list[str] = []
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.dumps(webhook.answer(json.loads(text))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: standard output is the report of the suite."""

        self.server = http.server.ThreadingHTTPServer((PROXY_ADDRESS, PORT), Handler)
        keys = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        keys.load_cert_chain(lab.pki / "server.crt", lab.pki / "server.key")
        self.server.socket = keys.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        lab.api.call("POST", WEBHOOKS, {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "machines"},
            "webhooks": [{
                "name": "machines.lab.test", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                           "resources": ["pods/eviction"]}],
                "clientConfig": {
                    "url": f"https://{PROXY_ADDRESS}:{PORT}/evictions",
                    "caBundle": base64.b64encode((lab.pki / "ca.crt").read_bytes()).decode()}}]})
        self.api = lab.api

    def answer(self, review: dict) -> dict:
        request = review["request"]
        self.evictions.append(f"{request['namespace']}/{request['name']}")
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": {
            "uid": request["uid"], "allowed": False, "status": {"code": 429, "message": WORDS}}}

    def close(self) -> None:
        self.api.call("DELETE", f"{WEBHOOKS}/machines")
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class MoveBackgroundTests(MoveCase):
    def begin_machine(self) -> tuple[Webhook, str]:
        """A pod with the annotation, alone on a node that is drained."""
        self.begin_moves()
        self.kubelet.register("drained")
        self.create_set("machine", 1)
        machine, = of(self.watch.now(), "machine")
        path = f"{PODS}/{machine['metadata']['name']}"
        fixture.lab.api.call("PATCH", path, {"metadata": {"annotations": {ANNOTATION: ""}}},
                             "application/merge-patch+json")
        self.kubelet.register("target")
        fixture.lab.kubectl("cordon", "drained")
        webhook = Webhook(fixture.lab)
        self.addCleanup(webhook.close)
        self.begin_record()
        return webhook, name_of(machine)

    def test_hd_a_machine_that_moves_by_itself_is_requested_once(self) -> None:
        """The end of its pod is the webhook's: here the test's, which first shows the progress."""
        webhook, machine = self.begin_machine()
        path = f"{PODS}/{machine.partition('/')[2]}"
        with rebalancer(EVERY_SECOND, GATE, policy=TAINTS) as log:
            index = log.wait(r"event=eviction .*state=background")
            for _ in range(3):
                index = log.wait(r"event=plan ", index)
            self.assertEqual(webhook.evictions, [machine])
            fixture.lab.api.call("PATCH", path, {"metadata": {"annotations": {IN_PROGRESS: ""}}},
                                 "application/merge-patch+json")
            for _ in range(3):
                index = log.wait(r"event=plan ", log.mark())
            self.assertEqual(webhook.evictions, [machine])
            self.assertEqual([name_of(each) for each in of(self.watch.now(), "machine")], [machine])
            fixture.lab.api.call("DELETE", path)
            moved, = self.wait_until_ready("machine", 1)
            log.wait(r"event=plan evictions=0", log.mark())
        report("evictions in the background", log.evictions())
        self.assertEqual(node_of(moved), "target")
        self.assertEqual(webhook.evictions, [machine])
        self.assertEqual(self.audit.evicted(), [])

    def test_he_without_the_gate_the_answer_is_a_refusal(self) -> None:
        webhook, machine = self.begin_machine()
        log = self.run_once(TAINTS)
        self.assertEqual(webhook.evictions, [machine])
        self.assertEqual(log.evictions(), {machine: "refused"}, log.lines)
        self.assertEqual([name_of(each) for each in of(self.watch.now(), "machine")], [machine])
