#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build_kubernetes.sh FOLDER: builds kube-apiserver, kube-controller-manager, kube-scheduler and
# kubelet 1.20 from Debian 12's source package into FOLDER/bin, and unpacks etcd and the network
# plugins into FOLDER/tools: installed, etcd would be a service of this machine. Does nothing if
# they exist. With --check as the first argument: only whether they exist.
#
# It needs the packages of `scripts/install_packages.sh cluster`, 5 GiB of disk while it runs, and
# about 12 minutes of two CPUs (FORESTALL_CLUSTER_JOBS: how many it uses). Later Debian releases
# have only kubectl's sources.
set -euo pipefail

check=no
[[ $1 == --check ]] && check=yes && shift
folder=$1
programs=(kube-apiserver kubelet kube-controller-manager kube-scheduler)
version=v1.20.2
jobs=${FORESTALL_CLUSTER_JOBS:-$(nproc)}

missing=()
for program in "${programs[@]}"; do
  [[ -x $folder/bin/$program ]] || missing+=("$program")
done
[[ ${#missing[@]} -gt 0 || ! -x $folder/tools/usr/bin/etcd ]] || exit 0
[[ $check == no ]] || exit 1

work=$folder/build
mkdir -p "$folder/bin" "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/source"
folder=$(realpath "$folder")
work=$(realpath "$work")
tree=$work/gopath/src/k8s.io/kubernetes

# Lists and a state of its own: the host's apt stays as it is, with or without deb-src.
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root)
for kind in deb deb-src; do
  echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian bookworm main"
done >"$work/apt/sources.list"

fetch_tools() {
  (cd "$work/source" && "${apt[@]}" download etcd-server containernetworking-plugins)
  rm -rf "$folder/tools.new"
  for package in "$work/source/"*.deb; do
    dpkg-deb -x "$package" "$folder/tools.new"
  done
  rm -rf "$folder/tools"
  mv "$folder/tools.new" "$folder/tools"
}

unpack() {
  (cd "$work/source" && "${apt[@]}" source --download-only kubernetes)
  rm -rf "$tree"
  mkdir -p "$(dirname "$tree")"
  # apt verified the hashes of the .dsc and of what it lists against the signed archive.
  dpkg-source --no-check -x "$work/source/"*.dsc "$tree"
}

# From here on in GOPATH mode: with modules, go updates go.mod.
export GOCACHE=$work/gocache GOPATH=$work/gopath GO111MODULE=off GOPROXY=off GOSUMDB=off
export CGO_ENABLED=0 HOME=$work PATH=/usr/lib/go-1.19/bin:$PATH

prepare() {
  # reflect2 1.0.1 reads the layout of maps before Go 1.18: many requests would end in a panic.
  local reflect2=vendor/github.com/modern-go/reflect2
  rm -rf "${tree:?}/$reflect2"
  cp -rL "/usr/share/gocode/src/github.com/modern-go/reflect2" "$tree/$reflect2"
  # The package has no generated OpenAPI definitions.
  cd "$tree"
  go build -p "$jobs" -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  local folders
  folders=$(grep -r -l --include='*.go' '+k8s:openapi-gen=' pkg staging/src/k8s.io |
    grep -v -E '/(code-generator|sample-apiserver|testdata)/' | xargs -n 1 dirname | sort -u |
    sed 's|^staging/src/|vendor/|; s|^|k8s.io/kubernetes/|' | paste -s -d ,)
  "$work/openapi-gen" --go-header-file hack/boilerplate/boilerplate.generatego.txt \
    -O zz_generated.openapi -i "$folders" -p k8s.io/kubernetes/pkg/generated/openapi \
    -r "$work/violations" --output-base "$work/gopath/src"
}

if [[ ! -x $folder/tools/usr/bin/etcd ]]; then
  "${apt[@]}" update
  fetch_tools
fi
if [[ ${#missing[@]} -gt 0 && ! -e $work/prepared ]]; then
  "${apt[@]}" update
  unpack
  prepare
  touch "$work/prepared"
fi
flags="-s -w"
for package in k8s.io/kubernetes/vendor/k8s.io/component-base/version \
  k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version; do
  flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=20"
done
for program in "${missing[@]}"; do
  started=$SECONDS
  (cd "$tree" &&
    go build -p "$jobs" -trimpath -ldflags "$flags" -o "$work/$program" "./cmd/$program")
  mv "$work/$program" "$folder/bin/$program"
  echo "built $program in $((SECONDS - started)) s"
done
rm -rf "$work"
