# SPDX-License-Identifier: Apache-2.0
"""A process of `forestall rebalance` with the rights of the manifests."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator

import fixture
from fixture import program_of_image
from lab import API_ADDRESS, PATIENCE, LabError

# Of the log, if a test fails.
LINES_SHOWN = 40


def fields_of(line: str) -> dict[str, str]:
    words = shlex.shlex(line, posix=True)
    words.whitespace_split = True
    words.quotes, words.commenters = '"', ""
    return dict(word.split("=", 1) for word in words if "=" in word)


class Rebalancer:
    """Its log is read as it comes."""

    def __init__(self, folder: pathlib.Path, policy: str, server: str, *options: str) -> None:
        file = folder / "policy.yaml"
        file.write_text(policy)
        kubeconfig = fixture.lab.account_kubeconfig("forestall", "forestall-rebalance", server)
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [str(program_of_image()), "rebalance", f"--kubeconfig={kubeconfig}",
             f"--policy-config-file={file}", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.text = b""

    def read(self, seconds: float) -> bool:
        """Reads what comes within this time; False at the end of the log."""
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return True
        block = os.read(self.process.stdout.fileno(), 65536)
        *lines, self.text = (self.text + block).split(b"\n")
        self.lines += [line.decode() for line in lines]
        return bool(block)

    def mark(self) -> int:
        """Index of what the log does not have yet."""
        while select.select([self.process.stdout], [], [], 0)[0] and self.read(0):
            pass
        return len(self.lines)

    def wait(self, pattern: str, begin: int = 0) -> int:
        """Index of the line after the first one that matches."""
        deadline = time.monotonic() + PATIENCE
        index = begin
        while True:
            for index in range(index, len(self.lines)):
                if re.search(pattern, self.lines[index]):
                    return index + 1
            index = max(begin, len(self.lines))
            left = deadline - time.monotonic()
            if left <= 0 or not self.read(left):
                raise LabError(f"the log has no {pattern}: {self.lines}")

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """The exit code, when it has ended."""
        while self.read(PATIENCE):
            pass
        return self.process.wait(PATIENCE)

    def events(self, name: str, begin: int = 0) -> list[dict[str, str]]:
        """The fields of the log's lines about this event."""
        lines = (fields_of(line) for line in self.lines[begin:])
        return [line for line in lines if line.get("event") == name]

    def evictions(self, begin: int = 0) -> dict[str, str]:
        """Pod to the state of its eviction."""
        return {each["pod"]: each["state"] for each in self.events("eviction", begin)}


@contextlib.contextmanager
def rebalancer(*options: str, policy: str, server: str = API_ADDRESS) -> Iterator[Rebalancer]:
    with tempfile.TemporaryDirectory(dir=fixture.lab.folder) as folder:
        process = Rebalancer(pathlib.Path(folder), policy, server, *options)
        try:
            yield process
        except (AssertionError, LabError):
            process.read(0)
            print("", *process.lines[-LINES_SHOWN:], sep="\n  ")
            raise
        finally:
            process.process.kill()
            process.process.wait()
            process.process.stdout.close()
