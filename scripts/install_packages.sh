#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing Debian 12 packages of a step:
#   install_packages.sh build   to build and run Forestall
#   install_packages.sh test    to run every test, VM tests included
#   install_packages.sh cluster to run the tests in a Kubernetes cluster, and to build it
#   install_packages.sh bench   to run vmtests/bench.py, which makes a guest's disk and a picture
# Does nothing, and uses no network, if none is missing.
set -euo pipefail

build=(
  bpftool ca-certificates ccache clang-19 cmake g++ libbpf-dev libcairo2-dev libcgroup-dev
  libcli11-dev libcurl4-openssl-dev libelf-dev libfmt-dev libncurses-dev
  libnghttp2-dev libprotobuf-dev libsimdjson-dev libspdlog-dev libssl-dev
  libsystemd-dev libyaml-cpp-dev libzstd-dev llvm-19 mold ninja-build pkg-config prometheus-cpp-dev
  protobuf-compiler zlib1g-dev
)
tests=(
  apt-utils chromium clang-format clang-tidy-19 cpio dbus e2fsprogs git kmod libbenchmark-dev
  fish libclang-rt-19-dev libgmock-dev libgrpc++-dev libgtest-dev mandoc openssl prometheus
  protobuf-compiler-grpc python3 qemu-system-x86 systemd tmux xz-utils zsh zstd busybox-static
)
bench=(
  busybox-static debootstrap e2fsprogs kmod python3 python3-matplotlib qemu-system-x86 systemd
  util-linux xz-utils zstd
)
cluster=(dpkg-dev golang-1.19-go golang-github-modern-go-reflect2-dev iproute2 openssl util-linux)
# Debian's containerd conflicts with Docker's and would remove Docker: the tests can use either.
command -v containerd >/dev/null || tests+=(containerd)
command -v runc >/dev/null || tests+=(runc)

case "${1:-}" in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${build[@]}" "${tests[@]}") ;;
  cluster) wanted=("${build[@]}" "${tests[@]}" "${cluster[@]}") ;;
  bench) wanted=("${build[@]}" "${bench[@]}") ;;
  *) echo "usage: $0 build|test|cluster|bench" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  # The state of a package is a word: only "installed" is enough.
  if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
    missing+=("$package")
  fi
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if [[ $(id -u) -ne 0 ]]; then
  echo "$0: these packages are missing and only root can install them: ${missing[*]}" >&2
  exit 1
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
