#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the container image of an installation: its programs and what they need to run.

The image has the executables that `cmake --install` puts into sbin and libexec, their shared
libraries, the descriptions of terminals and the UTF-8 locale for `forestall top`, and licences.
It has no shell. Everything that is not of this tree is a file of an installed Debian package,
and its checksum is the package's. The same input gives the same bytes: files are sorted, owned by
root, and none is younger than SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile

TOP = pathlib.Path(__file__).resolve().parents[2]
INFO = pathlib.Path("/var/lib/dpkg/info")
PREFIX = "usr/local"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# It draws PNG files with cairo, X11's libraries and fonts. Nothing in a pod needs them.
LEFT_OUT = {"forestall-plot"}
# For `forestall top` in a terminal: all of the small package, and one folder of libc-bin.
TERMINALS = ("ncurses-base", "/lib/terminfo/")
LOCALE = ("libc-bin", "/usr/lib/locale/C.utf8/")

CONFIGURATION = {
    "Entrypoint": [f"/{PREFIX}/sbin/forestall"],
    "Env": [f"PATH=/{PREFIX}/sbin", "LANG=C.UTF-8"],
    "WorkingDir": "/",
}


class ImageError(Exception):
    pass


def output_of(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        raise ImageError(f"{' '.join(command)}: {ran.stderr.strip()}")
    return ran.stdout


class Package:
    """An installed package of Debian."""

    def __init__(self, name: str) -> None:  # name or name:architecture
        self.name = name.split(":")[0]
        form = "${Package}\n${Version}\n${Architecture}\n${Maintainer}\n${source:Package}\n"
        fields = output_of("dpkg-query", "-W", "-f", form, name).split("\n")
        self.version, self.architecture, self.maintainer, self.source = fields[1:5]
        sums = INFO / f"{self.name}:{self.architecture}.md5sums"
        sums = sums if sums.exists() else INFO / f"{self.name}.md5sums"
        self.sums = dict(reversed(line.split(maxsplit=1)) for line in sums.read_text().splitlines())

    def check(self, path: str) -> None:
        """Fails unless `path`, as the package names it, is as the package has it."""
        expected = self.sums.get(path.lstrip("/"))
        found = hashlib.md5(pathlib.Path(path).read_bytes(), usedforsecurity=False).hexdigest()
        if found != expected:
            raise ImageError(f"{path} differs from its package {self.name} {self.version}; "
                             f"reinstall it with: apt-get install --reinstall {self.name}")

    def status(self) -> str:
        """As scanners of images read it."""
        return (f"Package: {self.name}\nStatus: install ok installed\nSource: {self.source}\n"
                f"Version: {self.version}\nArchitecture: {self.architecture}\n"
                f"Maintainer: {self.maintainer}\n")


class Packages:
    def __init__(self) -> None:
        self.used: dict[str, Package] = {}
        # Path in a package's list to the package's name.
        self.owners: dict[str, str] = {}

    def get(self, name: str) -> Package:
        plain = name.split(":")[0]
        if plain not in self.used:
            self.used[plain] = Package(name)
        return self.used[plain]

    def find_owners(self, paths: list[str]) -> None:
        """Fills `owners`. Each run of dpkg-query reads the lists of all packages: so it runs once
        for many files."""
        names = [name for path in paths for name in names_in_lists(path)]
        # The exit status is 1 if one of them is in no list.
        ran = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True)
        for line in ran.stdout.splitlines():
            packages, _, listed = line.partition(": ")
            self.owners[listed] = packages.split(",")[0]

    def owner(self, path: str) -> tuple[Package, str]:
        """The package of a file, and the file's path in the package's list."""
        if not any(listed in self.owners for listed in names_in_lists(path)):
            self.find_owners([path])
        for listed in names_in_lists(path):
            if listed in self.owners:
                return self.get(self.owners[listed]), listed
        raise ImageError(f"{path} is of no installed package")


def names_in_lists(path: str) -> list[str]:
    """With /lib as a link to /usr/lib, the list of a package may have either path."""
    return [path, path.removeprefix("/usr")]


class Tree:
    """The root folder of the image."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.packages = Packages()
        root.mkdir(parents=True)
        for folder in ("dev", "etc", "proc", "run", "sys", "tmp", "usr/lib", "usr/lib64", "var"):
            (root / folder).mkdir(parents=True)
        for link in ("lib", "lib64"):
            (root / link).symlink_to(f"usr/{link}")

    def put(self, source: str, target: str, mode: int) -> None:
        place = self.root / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
        place.chmod(mode)

    def write(self, target: str, text: str) -> None:
        place = self.root / target
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o644)

    def add_programs(self, stage: pathlib.Path) -> list[str]:
        found = [path for folder in ("sbin", "libexec/forestall")
                 for path in sorted((stage / PREFIX / folder).glob("*"))
                 if path.name not in LEFT_OUT]
        if not any(path.name == "forestall" for path in found):
            raise ImageError(f"{stage}/{PREFIX}/sbin has no forestall")
        for path in found:
            self.put(str(path), str(path.relative_to(stage)), 0o755)
        return [str(path) for path in found]

    def add_libraries(self, programs: list[str]) -> None:
        paths: dict[str, None] = {}  # in their order
        for program in programs:
            for line in output_of("ldd", program).splitlines():
                if "not found" in line:
                    raise ImageError(f"{program}: {line.strip()}")
                found = re.search(r"(?:=>\s+)?(/\S+) \(0x", line)
                if found:
                    paths[found[1]] = None
        self.packages.find_owners([os.path.realpath(path) for path in paths])
        for path in paths:
            self._add_library(path)

    def _add_library(self, path: str) -> None:
        real = os.path.realpath(path)
        package, listed = self.packages.owner(real)
        package.check(listed)
        self.put(real, real, 0o755 if "/ld-linux" in real else 0o644)
        # The loader opens the name that the program requests.
        asked = self.root / os.path.realpath(os.path.dirname(path)).lstrip("/")
        asked = asked / os.path.basename(path)
        if not asked.exists():
            asked.parent.mkdir(parents=True, exist_ok=True)
            asked.symlink_to(os.path.relpath(self.root / real.lstrip("/"), asked.parent))

    def add_files_of(self, name: str, folder: str) -> None:
        package = self.packages.get(name)
        for path in sorted(package.sums):
            if f"/{path}".startswith(folder):
                package.check(f"/{path}")
                self.put(f"/{path}", os.path.realpath(f"/{path}"), 0o644)

    def describe(self, version: str) -> None:
        """Licences, and lists of what the image is made of."""
        base = self.packages.get("base-files")
        self.put(os.path.realpath("/etc/os-release"), "usr/lib/os-release", 0o644)
        (self.root / "etc/os-release").symlink_to("../usr/lib/os-release")
        for license_file in sorted(pathlib.Path("/usr/share/common-licenses").glob("*")):
            if f"usr/share/common-licenses/{license_file.name}" in base.sums:
                self.put(str(license_file), str(license_file), 0o644)
        self.put(str(TOP / "LICENSE"), "usr/share/doc/forestall/copyright", 0o644)
        for package in self.packages.used.values():
            document = f"/usr/share/doc/{package.name}/copyright"
            self.put(os.path.realpath(document), document, 0o644)
            self.write(f"var/lib/dpkg/status.d/{package.name}", package.status())
        self.write("usr/share/forestall/packages", f"forestall {version}\n" + self.package_list())

    def package_list(self) -> str:
        used = sorted(self.packages.used.items())
        return "".join(f"{name} {package.version}\n" for name, package in used)


def layer_of(root: pathlib.Path, epoch: int) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            entry = tar.gettarinfo(str(path), arcname=str(path.relative_to(root)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            # All files get this time: those of packages are older, those of the build are younger.
            entry.mtime = epoch
            if entry.isdir():
                entry.mode = 0o1777 if entry.name == "tmp" else 0o755
            if entry.islnk():
                raise ImageError(f"{path} is a second name of another file")
            if entry.isreg():
                entry.mode = path.stat().st_mode & 0o755
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return layer.getvalue()


class Layout:
    """An image layout (OCI image-spec, image-layout.md) in a tar file."""

    def __init__(self, path: pathlib.Path, epoch: int) -> None:
        self.tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)
        self.epoch = epoch

    def add(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mtime, entry.mode = len(content), self.epoch, 0o644
        self.tar.addfile(entry, io.BytesIO(content))

    def blob(self, media: str, content: bytes) -> dict[str, object]:
        digits = hashlib.sha256(content).hexdigest()
        self.add(f"blobs/sha256/{digits}", content)
        return {"mediaType": f"application/vnd.oci.image.{media}", "size": len(content),
                "digest": f"sha256:{digits}"}


def document(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def write_image(path: pathlib.Path, layer: bytes, name: str, version: str, epoch: int) -> str:
    """Writes the image, and returns the digest of its manifest."""
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    created_text = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    layout = Layout(path, epoch)
    packed = layout.blob("layer.v1.tar+gzip", gzip.compress(layer, 9, mtime=0))
    labels = {"org.opencontainers.image.title": "forestall",
              "org.opencontainers.image.version": version,
              "org.opencontainers.image.licenses": "Apache-2.0"}
    config = layout.blob("config.v1+json", document({
        "architecture": ARCHITECTURES[platform.machine()], "os": "linux", "created": created_text,
        "config": {**CONFIGURATION, "Labels": labels},
        "history": [{"created": created_text, "created_by": "scripts/image.sh"}],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }))
    manifest = layout.blob("manifest.v1+json", document({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [packed]}))
    digest = str(manifest["digest"])
    manifest["annotations"] = {"io.containerd.image.name": name,
                               "org.opencontainers.image.ref.name": name.rsplit(":", 1)[-1]}
    layout.add("index.json", document({"schemaVersion": 2, "manifests": [manifest]}))
    layout.add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    layout.tar.close()
    return digest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("stage", type=pathlib.Path, help="DESTDIR of the installation")
    parser.add_argument("tree", type=pathlib.Path, help="folder to make: the image's root")
    parser.add_argument("--version", required=True)
    parser.add_argument("--name", help="default: localhost/forestall:VERSION")
    parser.add_argument("--output", type=pathlib.Path, help="the image; default: only the tree")
    options = parser.parse_args()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    try:
        tree = Tree(options.tree)
        tree.add_libraries(tree.add_programs(options.stage))
        tree.add_files_of(*TERMINALS)
        tree.add_files_of(*LOCALE)
        tree.describe(options.version)
        print(tree.package_list(), end="")
        if options.output:
            name = options.name or f"localhost/forestall:{options.version}"
            layer = layer_of(options.tree, epoch)
            digest = write_image(options.output, layer, name, options.version, epoch)
            packed = options.output.stat().st_size
            print(f"{options.output}: {name}@{digest}, {len(layer) / 2**20:.1f} MiB, "
                  f"{packed / 2**20:.1f} MiB compressed")
    except ImageError as error:
        print(f"image.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
