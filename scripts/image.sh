#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the container image of Forestall, an OCI image layout in a tar file, without a daemon and
# without a registry. Prints the packages that it contains, its digest and its size.
#   scripts/image.sh                     build/image/forestall.tar, from build/run
#   scripts/image.sh --build DIR         from another build tree, all of which is built
#   scripts/image.sh --name NAME         default: localhost/forestall:VERSION
#   scripts/image.sh --output FILE       the image
#   scripts/image.sh --tree DIR          only a folder with the image's files (Dockerfile)
# Load it with `ctr -n k8s.io images import FILE`, `podman load -i FILE`, or
# `skopeo copy oci-archive:FILE docker://REGISTRY/NAME`.
#
# Times in the image are SOURCE_DATE_EPOCH; default: the time of the last commit, or 1970.
set -euo pipefail
umask 022
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build='' name=() output='' tree=''
usage() {
  sed -n '5,9s/^# *//p' "$0" >&2
  exit 2
}
while [[ $# -gt 0 ]]; do
  [[ $# -ge 2 ]] || usage
  case $1 in
    --build) build=$2 ;;
    --name) name=(--name "$2") ;;
    --output) output=$2 ;;
    --tree) tree=$2 ;;
    *) usage ;;
  esac
  shift 2
done

if [[ -z $build ]]; then
  build=$top/build/run
  {
    "$top/scripts/install_packages.sh" build
    (cd "$top" && cmake --preset run --log-level=WARNING >/dev/null)
    ninja -C "$build" --quiet
  } >&2
fi
if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
  # Sources without their history, as in a build of the Dockerfile, have no such time.
  SOURCE_DATE_EPOCH=$(git -c safe.directory="$top" -C "$top" log -1 --format=%ct 2>/dev/null) ||
    SOURCE_DATE_EPOCH=0
fi
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
DESTDIR=$stage/installed cmake --install "$build" --prefix /usr/local >/dev/null
arguments=("${name[@]}" --version "$version")
if [[ -z $tree ]]; then
  output=${output:-$top/build/image/forestall.tar}
  mkdir -p "$(dirname "$output")"
  arguments+=(--output "$output")
fi
python3 "$top/scripts/deploy/image.py" "$stage/installed" "${tree:-$stage/tree}" "${arguments[@]}"
