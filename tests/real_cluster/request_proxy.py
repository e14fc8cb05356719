# SPDX-License-Identifier: Apache-2.0
"""A proxy before the API server in which a test treats single requests in another way."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import threading
from collections.abc import Callable

from lab import API_ADDRESS, PATIENCE, PROXY_ADDRESS, Lab
from proxy import PORT, Proxy

SERVER = f"{PROXY_ADDRESS}:{PORT}"
# Of a list that is cut: so much of its answer.
CUT_BYTES = 900


@dataclasses.dataclass
class Rule:
    """`begin`: how the request begins; `part`: what it has. After `count` requests it is over."""
    begin: str
    part: str
    treat: Callable[[ssl.SSLSocket, bytes], None]
    count: int = 1
    met: int = 0

    def holds(self, request: str) -> bool:
        return self.met < self.count and request.startswith(self.begin) and self.part in request


class RequestProxy(Proxy):
    """`rules`: the first one that holds treats a request; others are passed on."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.rules: list[Rule] = []
        self._lock = threading.Lock()
        self._met = threading.Condition(self._lock)

    def add(self, begin: str, part: str, treat: Callable[[ssl.SSLSocket, bytes], None],
            count: int = 1) -> Rule:
        self.rules.append(Rule(begin, part, treat, count))
        return self.rules[-1]

    def wait(self, rule: Rule, met: int = 1) -> None:
        with self._lock:
            if not self._met.wait_for(lambda: rule.met >= met, PATIENCE):
                raise TimeoutError(f"{rule.met} of {met} requests {rule.begin} … {rule.part}")

    def pass_on(self, client: ssl.SSLSocket, request: bytes) -> None:
        text = request.decode()
        with self._lock:
            rule = next((each for each in self.rules if each.holds(text)), None)
            if rule:
                rule.met += 1
                self._met.notify_all()
        if rule:
            rule.treat(client, request)
        else:
            super().pass_on(client, request)

    def pass_through(self, client: ssl.SSLSocket, request: bytes) -> None:
        """As if no rule held."""
        super().pass_on(client, request)

    def whole_answer(self, request: bytes) -> bytes:
        """That of the API server, which has done what the request requests."""
        with socket.create_connection((API_ADDRESS, 443), PATIENCE) as plain, \
                self.to_server.wrap_socket(plain, server_hostname=API_ADDRESS) as server:
            server.sendall(request)
            blocks = []
            while block := server.recv(65536):
                blocks.append(block)
            return b"".join(blocks)

    # Ways to treat a request.

    @staticmethod
    def refuse(text: bytes) -> Callable[[ssl.SSLSocket, bytes], None]:
        return lambda client, _: client.sendall(text)

    @staticmethod
    def drop(_client: ssl.SSLSocket, _request: bytes) -> None:
        """The connection ends without an answer, and the API server has not got the request."""

    def lose_answer(self, _client: ssl.SSLSocket, request: bytes) -> None:
        self.whole_answer(request)

    def answer_otherwise(self, text: bytes) -> Callable[[ssl.SSLSocket, bytes], None]:
        """The API server does it, and another answer is sent."""
        def treat(client: ssl.SSLSocket, request: bytes) -> None:
            self.whole_answer(request)
            client.sendall(text)
        return treat

    def cut(self, client: ssl.SSLSocket, request: bytes) -> None:
        client.sendall(self.whole_answer(request)[:CUT_BYTES])

    def cut_watch(self, client: ssl.SSLSocket, request: bytes) -> None:
        """The connection ends in the middle of its first event."""
        self.forward(client, request, cuts=True)

    @staticmethod
    def stall_watch(client: ssl.SSLSocket, _request: bytes) -> None:
        """It is answered, and has no event until the client ends it."""
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        client.recv(1)

    @staticmethod
    def quiet_watch(ended: threading.Event) -> Callable[[ssl.SSLSocket, bytes], None]:
        """It has no event, and ends as the API server ends it."""
        def treat(client: ssl.SSLSocket, _request: bytes) -> None:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                           b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
            ended.wait(PATIENCE)
            client.sendall(b"0\r\n\r\n")
        return treat

    def after(self, action: Callable[[], None]) -> Callable[[ssl.SSLSocket, bytes], None]:
        """Passes the request on after the action."""
        def treat(client: ssl.SSLSocket, request: bytes) -> None:
            action()
            self.pass_through(client, request)
        return treat
