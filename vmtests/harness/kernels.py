# SPDX-License-Identifier: Apache-2.0
"""Fetches Debian kernels through a private APT and keeps them unpacked.

APT does the part that must not be written twice: it checks the signature of
the archive and the hash of every package. It runs with a state, a cache and a
sources list of its own, so the machine's package system is neither read nor
changed, and nothing is ever installed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import bzimage, mirrors

APT_SECONDS = 600
KEPT_VERSIONS = 2

# The meta package names the real one, and since 7.x that one is split further.
_KERNEL_PART = re.compile(r"^linux-(image|binary|modules)-\d+\.\d+.*-cloud-amd64$")
# Settings that describe how to reach the network and whether the clock is trusted
# belong to the machine; hooks and index targets do not concern us.
_INHERITED = re.compile(r"^Acquire::(https?::|Retries |Check-|ForceIPv)")


class FetchError(Exception):
    """A kernel could not be had; the text is fit for the summary."""


@dataclass(frozen=True)
class Track:
    """A kernel line of the matrix: the request, not yet the result."""

    label: str
    package: str
    suites: tuple[str, ...]
    cgroups: tuple[str, ...]
    required: bool

    @property
    def archive(self) -> str:
        """Tracks fed from the same suites share one APT state."""
        return self.suites[0]


# Version 1 of the memory controller is not built into Debian's 6.12 and later. "systemd": v2, with
# systemd as PID 1.
TRACKS = (
    Track("6.1", "linux-image-cloud-amd64", ("bookworm", "bookworm-security"), ("v1", "v2"), True),
    Track(
        "6.12", "linux-image-6.12-cloud-amd64", ("bookworm", "bookworm-security"),
        ("v2", "systemd"), True,
    ),  # fmt: skip
    Track("newest", "linux-image-cloud-amd64", ("sid",), ("v2",), False),
)
ALIASES = {"7.2": "newest"}


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel, ready to boot."""

    label: str
    version: str  # of the Debian package
    release: str  # output of `uname -r`
    folder: Path
    note: str = ""

    @property
    def boot_file(self) -> Path:
        """The bare vmlinux where it could be extracted, else vmlinuz."""
        bare = self.folder / "vmlinux"
        return bare if bare.exists() else self.folder / "vmlinuz"

    @property
    def modules(self) -> Path:
        return self.folder / "tree/lib/modules" / self.release


class Apt:
    """APT with its own state below one folder."""

    def __init__(self, folder: Path, sources: list[str]) -> None:
        self._folder = folder
        for name in ("state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "sources.list").write_text("\n".join(sources) + "\n")
        inherited = _inherited_settings()
        (folder / "apt.conf").write_text(_configuration(folder) + inherited)

    def update(self) -> None:
        # A suite that fails must fail the update: an old index would answer
        # with versions which the mirror no longer carries.
        # A mirror that stands still serves an index whose time is over. It is
        # signed all the same, and a test kernel need not be the latest.
        self._run(
            "apt-get",
            "-qq",
            "-o",
            "APT::Update::Error-Mode=any",
            "-o",
            "Acquire::Check-Valid-Until=false",
            "update",
        )

    def show(self, package: str) -> dict[str, str]:
        """Fields of the candidate version of a package."""
        text = self._run("apt-cache", "--no-all-versions", "show", package)
        return parse_fields(text)

    def download(self, package: str, version: str, into: Path) -> Path:
        """Fetches one package unless it is there already; APT checks its hash."""
        into.mkdir(parents=True, exist_ok=True)
        self._run("apt-get", "-qq", "download", f"{package}={version}", cwd=into)
        found = list(into.glob(f"{package}_{version.replace(':', '%3a')}_*.deb"))
        if not found:
            raise FetchError(f"apt-get download {package} left no file")
        return found[0]

    def _run(self, *command: str, cwd: Path | None = None) -> str:
        environment = dict(os.environ, APT_CONFIG=str(self._folder / "apt.conf"), LC_ALL="C")
        return _checked(command, environment, cwd)


def _checked(
    command: tuple[str, ...], environment: dict[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Runs a tool and returns its output, or raises what it complained about."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=APT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "Err"))]
        complaint = (lines or done.stderr.splitlines() or ["no message"])[0]
        raise FetchError(f"{command[0]}: {complaint}")
    return done.stdout


def _inherited_settings() -> str:
    dump = _checked(("apt-config", "dump"))
    return "".join(f"{line}\n" for line in dump.splitlines() if _INHERITED.match(line))


def _configuration(folder: Path) -> str:
    settings = {
        "Dir::State": str(folder / "state"),
        "Dir::State::status": "/dev/null",
        "Dir::Cache": str(folder / "cache"),
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::sourcelist": str(folder / "sources.list"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Etc::trustedparts": "/dev/null",
        "APT::Architecture": "amd64",
        "APT::Get::AllowUnauthenticated": "false",
        # The _apt user cannot write below a home directory.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::GzipIndexes": "true",
        "Acquire::Retries": "2",
        "Acquire::http::Timeout": "30",
        "Acquire::https::Timeout": "30",
    }
    return "".join(f'{name} "{value}";\n' for name, value in settings.items())


def parse_fields(text: str) -> dict[str, str]:
    """Fields of the first stanza `apt-cache show` prints."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if not line and fields:
            break
        name, colon, value = line.partition(": ")
        if colon and not line.startswith(" "):
            fields.setdefault(name, value)
    return fields


def kernel_parts(depends: str) -> list[str]:
    """Names of the packages in a Depends field which hold a kernel's files."""
    names = []
    for group in depends.split(","):
        first = group.split("|")[0].split()
        if first and _KERNEL_PART.match(first[0]):
            names.append(first[0])
    return names


def resolve(apt: Apt, package: str) -> dict[str, str]:
    """Package name to version, for every package which holds the kernel's files."""
    found: dict[str, str] = {}
    waiting = kernel_parts(apt.show(package).get("Depends", ""))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        fields = apt.show(name)
        found[name] = fields["Version"]
        waiting += kernel_parts(f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}")
    if not found:
        raise FetchError(f"{package} names no kernel package")
    return found


class Store:
    """The cache: one folder per track, holding unpacked kernels and a stamp."""

    def __init__(self, root: Path, max_age_days: float, refresh: bool) -> None:
        self._root = root
        self._max_age = max_age_days * 86400
        self._refresh = refresh
        self._apts: dict[str, tuple[Apt, str]] = {}

    def get(self, track: Track) -> Kernel:
        """The kernel of a track; uses the network only if the cached one is old."""
        folder = self._root / "kernels" / track.label
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            cached = _read_stamp(track, folder)
            if cached and not self._refresh and self._is_fresh(folder):
                return cached
            try:
                return self._fetch(track, folder)
            except FetchError as error:
                if cached is None or self._refresh:
                    raise
                # An old kernel still proves something; not having one does not.
                note = "; ".join(filter(None, (cached.note, f"not refreshed ({error})")))
                return Kernel(track.label, cached.version, cached.release, cached.folder, note)

    def _is_fresh(self, folder: Path) -> bool:
        return time.time() - (folder / "current.json").stat().st_mtime < self._max_age

    def _fetch(self, track: Track, folder: Path) -> Kernel:
        if not mirrors.KEYRING.exists():
            raise FetchError(f"{mirrors.KEYRING} is missing, so nothing could be verified")
        with _locked(self._root / f"apt-{track.archive}.lock"):
            apt, note = self._updated_apt(track)
            packages = resolve(apt, track.package)
            version = next(iter(packages.values()))
            name = version.replace(":", "_").replace("~", "_")
            if not (folder / name / "vmlinuz").exists():
                _install(apt, packages, folder / name)
        release = _release_of(folder / name / "tree")
        stamp = {
            "package": track.package,
            "version": version,
            "release": release,
            "folder": name,
            "note": note,
        }
        (folder / "current.json").write_text(json.dumps(stamp, indent=2) + "\n")
        _prune(folder, name)
        return Kernel(track.label, version, release, folder / name, note)

    def _updated_apt(self, track: Track) -> tuple[Apt, str]:
        """APT with fresh indexes, and what the summary reports about their origin."""
        if track.archive not in self._apts:
            folder = self._root / "apt" / track.archive
            self._apts[track.archive] = updated_apt(folder, track, mirrors.of_this_machine())
        return self._apts[track.archive]


def updated_apt(folder: Path, track: Track, chosen: mirrors.Mirrors) -> tuple[Apt, str]:
    """Requests all suites; omits the security suite if its guessed address fails."""
    apt = Apt(folder, [chosen.source_line(suite) for suite in track.suites])
    plain = [suite for suite in track.suites if not suite.endswith("-security")]
    try:
        apt.update()
        return apt, ""
    except FetchError:
        if not chosen.security_guessed or not plain or len(plain) == len(track.suites):
            raise
    apt = Apt(folder, [chosen.source_line(suite) for suite in plain])
    apt.update()
    return apt, f"without security updates (nothing at {chosen.security})"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two runs may share the cache; the second waits for the first to fetch."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read_stamp(track: Track, folder: Path) -> Kernel | None:
    try:
        stamp = json.loads((folder / "current.json").read_text())
        place = folder / stamp["folder"]
        note = stamp.get("note", "")
        kernel = Kernel(track.label, stamp["version"], stamp["release"], place, note)
    except (OSError, ValueError, KeyError):
        return None
    usable = kernel.boot_file.exists() and (kernel.modules / "modules.dep").exists()
    return kernel if usable else None


def _install(apt: Apt, packages: dict[str, str], target: Path) -> None:
    """Works beside the target and renames, so half a kernel is never mistaken for one."""
    scratch = target.with_name(target.name + ".partial")
    shutil.rmtree(scratch, ignore_errors=True)
    debs = [apt.download(name, version, scratch / "debs") for name, version in packages.items()]
    tree = scratch / "tree"
    tree.mkdir()
    for deb in debs:
        _checked(("dpkg-deb", "-x", str(deb), str(tree)))
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")
    _index_modules(tree)
    _place_images(tree, scratch)
    shutil.rmtree(target, ignore_errors=True)
    scratch.rename(target)


def _index_modules(tree: Path) -> None:
    """Debian's packages carry no modules.dep: it is made when they are installed."""
    depmod = shutil.which("depmod", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if depmod is None:
        raise FetchError("depmod (package kmod) is not installed")
    _checked((depmod, "-b", str(tree), _release_of(tree)))


def _place_images(tree: Path, folder: Path) -> None:
    images = [*tree.glob("boot/vmlinuz-*"), *tree.glob("lib/modules/*/vmlinuz")]
    if not images:
        raise FetchError("the packages hold no vmlinuz")
    shutil.copyfile(images[0], folder / "vmlinuz")
    bare = bzimage.extract(images[0].read_bytes())
    if bare is not None:
        (folder / "vmlinux").write_bytes(bare)


def _release_of(tree: Path) -> str:
    releases = [path.name for path in tree.glob("lib/modules/*") if path.is_dir()]
    if len(releases) != 1:
        raise FetchError(f"expected one folder of modules, found {releases}")
    return releases[0]


def _prune(folder: Path, current: str) -> None:
    """Drops old versions; the last few stay, since another run may be booting one."""
    others = [path for path in folder.iterdir() if path.is_dir() and path.name != current]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[KEPT_VERSIONS - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
