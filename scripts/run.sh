#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a running Forestall in one command:
#   scripts/run.sh              the agent on its configuration (built in: kubelet's default memory
#                               threshold, on pods and on the cgroups the configuration names)
#   scripts/run.sh demo         the whole job on a scratch cgroup, in seconds
#   scripts/run.sh SUBCOMMAND…  anything `forestall --help` lists
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Results go to standard output, build messages to standard error.
{
  "$top/scripts/install_packages.sh" build
  cd "$top"
  [[ -e build/run/build.ninja ]] ||
    cmake --preset run --log-level=WARNING >/dev/null
  programs=(forestall)
  case "${1:-}" in # the programs that these subcommands start
    check-config | diff | earlyoom | events | import-oomd | qos | rebalance | replay | rules)
      programs+=(forestall-offline)
      ;;
    report) programs+=(forestall-offline forestall-plot) ;;
    top) programs+=(forestall-top) ;;
    cluster) programs+=(forestall-cluster) ;;
  esac
  if [[ "$(ninja -C build/run -n "${programs[@]}")" != *"no work to do"* ]]; then
    echo "Building ${programs[*]}: several minutes the first time"
    progress=(--quiet)
    [[ ! -t 2 ]] || progress=() # ninja shows its steps on one line
    ninja -C build/run "${progress[@]}" "${programs[@]}"
  fi
  cd - >/dev/null
} >&2
exec "$top/build/run/userspace/cli/forestall" "$@"
