# SPDX-License-Identifier: Apache-2.0
"""Derives Debian mirrors from the machine's own APT sources.

A build machine often reaches the network only through a mirror, and that
mirror is named in /etc/apt. So the harness uses the same hosts, but writes a
sources list of its own, because the suites it needs (sid, security) are not
the ones the machine is set up to install from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEFAULT_ARCHIVE = "http://deb.debian.org/debian"
DEFAULT_SECURITY = "http://deb.debian.org/debian-security"

# Third-party repositories sit in the same files; only these suites are Debian's.
_DEBIAN_SUITE = re.compile(
    r"^(bullseye|bookworm|trixie|forky|sid|stable|testing|unstable|oldstable)"
    r"(-updates|-backports|-security|/updates)?/?$"
)
_ONE_LINE = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.+)$")


@dataclass(frozen=True)
class Mirrors:
    """Base addresses of the two Debian archives."""

    archive: str = DEFAULT_ARCHIVE
    security: str = DEFAULT_SECURITY
    security_guessed: bool = False  # not named by the user: it may not exist

    def source_line(self, suite: str) -> str:
        """One line of sources.list for a suite, accepting only Debian's own keys."""
        base = self.security if suite.endswith("-security") else self.archive
        return f"deb [arch=amd64 signed-by={KEYRING}] {base} {suite} main"


def one_line_entries(text: str) -> list[tuple[str, str]]:
    """(address, suite) pairs of the classic sources.list format."""
    entries = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.split("#", 1)[0].strip())
        if match:
            entries.append((match[1], match[2]))
    return entries


def deb822_entries(text: str) -> list[tuple[str, str]]:
    """(address, suite) pairs of the deb822 .sources format."""
    entries: list[tuple[str, str]] = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = _deb822_fields(stanza)
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").lower() in ("no", "false"):
            continue
        for address in fields.get("uris", "").split():
            entries += [(address, suite) for suite in fields.get("suites", "").split()]
    return entries


def _deb822_fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def choose(entries: list[tuple[str, str]]) -> Mirrors:
    """The first address that carries Debian itself, and the first with its security suite.

    A machine that names a private mirror often reaches nothing else, so the security suite is
    then searched on the same host. Debian's own mirrors do not carry it, but its own host does.
    """
    archive = security = None
    for address, suite in entries:
        match = _DEBIAN_SUITE.match(suite)
        if not match:
            continue
        if match[2] in ("-security", "/updates"):
            security = security or address.rstrip("/")
        elif match[2] != "-backports":
            archive = archive or address.rstrip("/")
    if archive and not security:
        guess = _security_beside(archive)
        if guess:
            return Mirrors(archive, guess, security_guessed=True)
    return Mirrors(archive or DEFAULT_ARCHIVE, security or DEFAULT_SECURITY)


def _security_beside(archive: str) -> str | None:
    """Where a private mirror of both archives has the other one: …/debian-security."""
    host = urlsplit(archive).hostname or ""
    if host == "debian.org" or host.endswith(".debian.org") or not archive.endswith("/debian"):
        return None
    return f"{archive}-security"


def of_this_machine(etc_apt: Path = Path("/etc/apt")) -> Mirrors:
    """Reads sources.list and sources.list.d; files that cannot be read are left out."""
    entries: list[tuple[str, str]] = []
    files = [etc_apt / "sources.list", *sorted(etc_apt.glob("sources.list.d/*"))]
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if path.suffix == ".sources":
            entries += deb822_entries(text)
        elif path.suffix == ".list":
            entries += one_line_entries(text)
    return choose(entries)
