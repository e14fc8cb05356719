# SPDX-License-Identifier: Apache-2.0
"""Objects of a path of the API server as they are now, by a watch."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable
from http.client import HTTPException

from lab import PATIENCE, Api, LabError

# Type of the event, and the object.
Listener = Callable[[str, dict], None]


def summary(each: dict) -> str:
    """For a failure of a test."""
    conditions = [f"{one['type']} {one['status']}" for one in
                  each.get("status", {}).get("conditions") or []]
    ends = " ends" if "deletionTimestamp" in each["metadata"] else ""
    node = each.get("spec", {}).get("nodeName", "no node")
    return f"{each['metadata']['name']}{ends} on {node}: {', '.join(conditions)}"


class ObjectWatch:
    """Follows the objects in a thread, which calls `listener` with each event, the first of them
    for what exists already. The events are in the order of the API server and have no gap: what
    holds at each of them holds at all times."""

    def __init__(self, api: Api, path: str, listener: Listener | None = None,
                 **query: str) -> None:
        self.objects: dict[str, dict] = {}  # by UID
        self.problem = ""
        self._changed = threading.Condition()
        self._listener = listener
        listed = api.get(f"{path}?{urllib.parse.urlencode(query)}")
        query |= {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        self._connection, self._answer = api.open("GET", f"{path}?{urllib.parse.urlencode(query)}")
        self._socket = self._connection.sock
        self._socket.settimeout(None)
        self._closed = False
        for each in listed.get("items") or []:
            self._take("ADDED", each)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def __enter__(self) -> ObjectWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def _follow(self) -> None:
        try:
            while line := self._answer.readline():
                event = json.loads(line)
                self._take(event["type"], event["object"])
            problem = "the watch ended"
        except (OSError, HTTPException, ValueError, LabError, AttributeError) as error:
            problem = f"the watch ended: {error!r}"
        with self._changed:
            if not self._closed:
                self.problem = problem
            self._changed.notify_all()

    def _take(self, kind: str, each: dict) -> None:
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            raise LabError(f"the watch has an event {kind}: {each}")
        with self._changed:
            if kind == "DELETED":
                self.objects.pop(each["metadata"]["uid"], None)
            else:
                self.objects[each["metadata"]["uid"]] = each
            if self._listener:
                self._listener(kind, each)
            self._changed.notify_all()

    def now(self) -> list[dict]:
        with self._changed:
            return list(self.objects.values())

    def wait(self, holds: Callable[[list[dict]], bool], what: str,
             patience: float = PATIENCE) -> list[dict]:
        """The objects, as soon as `holds` of them."""
        deadline = time.monotonic() + patience
        with self._changed:
            while not holds(list(self.objects.values())):
                left = deadline - time.monotonic()
                if self.problem or left <= 0:
                    raise LabError(f"not within {patience} s: {what}; {self.problem}; " + "; ".join(
                        map(summary, self.objects.values())))
                self._changed.wait(left)
            return list(self.objects.values())
