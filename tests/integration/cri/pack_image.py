#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a program into an OCI image of one layer: pack_image.py PROGRAM NAME OUT.tar [COMMAND]...

It runs as /pause, the entry point. With COMMANDs there is no entry point, and the program is found
under these names, as a busybox is. The image's configuration contains NAME, so that two images of
one program have two IDs."""

import hashlib
import io
import json
import pathlib
import platform
import sys
import tarfile


ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Layout:
    """An image layout (OCI image-spec, image-layout.md) in a tar file."""

    def __init__(self, path: str) -> None:
        self.tar = tarfile.open(path, "w")

    def add(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        self.tar.addfile(entry, io.BytesIO(content))

    def blob(self, media: str, content: bytes) -> dict[str, object]:
        digits = hashlib.sha256(content).hexdigest()
        self.add(f"blobs/sha256/{digits}", content)
        return {"mediaType": f"application/vnd.oci.image.{media}", "size": len(content),
                "digest": f"sha256:{digits}"}


def layer_of(program: str, commands: list[str]) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in commands or ["pause"]:
            entry = tarfile.TarInfo(f"bin/{name}" if commands else name)
            content = pathlib.Path(program).read_bytes()
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return layer.getvalue()


def main() -> None:
    program, name, out, *commands = sys.argv[1:]
    layout = Layout(out)
    layer = layout.blob("layer.v1.tar", layer_of(program, commands))
    start = {"Env": ["PATH=/bin"]} if commands else {"Entrypoint": ["/pause"]}
    config = layout.blob("config.v1+json", json.dumps({
        "architecture": ARCHITECTURES[platform.machine()], "os": "linux",
        "config": {**start, "Labels": {"name": name}},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}).encode())
    manifest = layout.blob("manifest.v1+json", json.dumps({
        "schemaVersion": 2, "config": config, "layers": [layer]}).encode())
    manifest["annotations"] = {"io.containerd.image.name": name}
    layout.add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    layout.add("index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode())
    layout.tar.close()


if __name__ == "__main__":
    main()
