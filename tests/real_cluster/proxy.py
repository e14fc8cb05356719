# SPDX-License-Identifier: Apache-2.0
"""A proxy before the API server that answers in its place, late, or in parts."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading

from lab import API_ADDRESS, PATIENCE, PROXY_ADDRESS, Lab

PORT = 8443
SLOW_SECONDS = 5
# Of a watch that is cut: its head and the beginning of an object.
CUT_BYTES = 60
STATUS = '{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{}","code":{}}}'


def answer(code: int, reason: str, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} {reason}", "Content-Type: application/json",
             f"Content-Length: {len(body)}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def failure(code: int, reason: str, *headers: str) -> bytes:
    return answer(code, reason, STATUS.format(reason, code), *headers)


def error_event(code: int, reason: str) -> bytes:
    """A watch with one event."""
    return answer(200, "OK", f'{{"type":"ERROR","object":{STATUS.format(reason, code)}}}\n')


# By the name of the fault.
ANSWERS = {
    "429": failure(429, "TooManyRequests"),
    "429 with Retry-After": failure(429, "TooManyRequests", "Retry-After: 1"),
    "500": failure(500, "InternalError"),
    "garbage": answer(200, "OK", '{"kind":"PodList","items":[{"metadata":{"na\x00\xff'),
}


class Proxy:
    """`fault`: what happens to each request from now on; "" passes it on. A change ends all
    connections, so that it takes effect at once."""

    def __init__(self, lab: Lab) -> None:
        self.fault = ""
        self.faulty = 0  # requests that a fault has met
        self.changed = threading.Event()
        self.open: set[socket.socket] = set()
        self.to_server = lab.api.context
        self.as_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.as_server.load_cert_chain(lab.pki / "server.crt", lab.pki / "server.key")
        self.as_server.set_alpn_protocols(["http/1.1"])
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # The peer, or set_fault(), ends a connection at any time.
                with contextlib.suppress(OSError):
                    proxy.serve(proxy.as_server.wrap_socket(self.request, server_side=True))

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self.server = socketserver.ThreadingTCPServer((PROXY_ADDRESS, PORT), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.set_fault("")
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def set_fault(self, fault: str) -> None:
        self.fault, self.faulty = fault, 0
        self.changed.set()
        self.changed = threading.Event()
        for each in list(self.open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def serve(self, client: ssl.SSLSocket) -> None:
        """One request, and all of its answer."""
        with client:
            self.open.add(client)
            try:
                self.pass_on(client, self.read_request(client))
            finally:
                self.open.discard(client)

    @staticmethod
    def read_request(client: ssl.SSLSocket) -> bytes:
        text = b""
        while b"\r\n\r\n" not in text:
            block = client.recv(65536)
            if not block:
                raise ConnectionError("no request")
            text += block
        head, _, body = text.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                       if line.startswith(b"content-length:")), 0)
        while len(body) < length:
            body += client.recv(65536)
        return head + b"\r\nConnection: close\r\n\r\n" + body

    def pass_on(self, client: ssl.SSLSocket, request: bytes) -> None:
        fault, watches = self.fault, b"watch=" in request.split(b"\r\n", 1)[0]
        cuts = fault == "watch cut" and watches
        if fault in ANSWERS or (fault == "410" and watches):
            self.faulty += 1
            client.sendall(ANSWERS.get(fault) or failure(410, "Expired"))
            return
        if fault == "slow":
            self.faulty += 1
            self.changed.wait(SLOW_SECONDS)
        self.forward(client, request, cuts)

    def forward(self, client: ssl.SSLSocket, request: bytes, cuts: bool) -> None:
        with socket.create_connection((API_ADDRESS, 443), PATIENCE) as plain, \
                self.to_server.wrap_socket(plain, server_hostname=API_ADDRESS) as server:
            server.settimeout(None)
            self.open.add(server)
            try:
                server.sendall(request)
                self.copy(server, client, cuts)
            finally:
                self.open.discard(server)

    def copy(self, server: ssl.SSLSocket, client: ssl.SSLSocket, cuts: bool) -> None:
        head = b""
        while block := server.recv(65536):
            if not cuts:
                client.sendall(block)
                continue
            head += block
            begin = head.find(b"\r\n\r\n") + 4
            if begin >= 4 and len(head) >= begin + CUT_BYTES:
                self.faulty += 1
                client.sendall(head[:begin + CUT_BYTES])
                return
