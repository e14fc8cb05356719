#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that can be proven, from a bare Debian 12, in one command: source checks, unit and
# integration tests on this host, the same under sanitizers, short fuzzing, and the VM tests on
# each kernel. A stage that fails does not keep the next from running.
#   scripts/test.sh                 all stages
#   scripts/test.sh STAGE…          only these: checks host asan tsan fuzz vm
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=$PWD/build/results

stages=("$@")
[[ ${#stages[@]} -gt 0 ]] || stages=(checks host asan tsan fuzz vm)

build_target() { # PRESET TARGET
  cmake --preset "$1" --log-level=WARNING >/dev/null && ninja -C "build/$1" --quiet "$2"
}
build() { build_target "$1" all; }

run_ctest() { # PRESET [ctest arguments]
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --output-junit "$results/$preset.xml" \
    --timeout 120 --no-tests=error --parallel "$(nproc)" "$@"
}

stage_checks() { scripts/check_sources.py --junit "$results/checks.xml"; }
stage_host() { build release && run_ctest release; }
stage_asan() { build asan && run_ctest asan; }
stage_tsan() {
  local threadless='^(Wake/|Bpf|Oom(KillRecord|Log|Prediction)|ProcessSource|TaskScan)'
  build_target tsan forestall_thread_tests && run_ctest tsan -L threads -E "$threadless"
}
stage_fuzz() { build_target fuzz fuzz_all && run_ctest fuzz -L fuzz; }
stage_vm() {
  build release &&
    vmtests/run.py --kernel all --binaries build/release --results "$results/vm.json"
}

rm -rf "$results"
mkdir -p "$results"
scripts/install_packages.sh test || exit 1
failed=()
for stage in "${stages[@]}"; do
  declare -F "stage_$stage" >/dev/null || {
    echo "$0: no stage '$stage'; stages are: checks host asan tsan fuzz vm" >&2
    exit 2
  }
  echo "== $stage"
  started=$SECONDS
  "stage_$stage" || failed+=("$stage")
  echo "== $stage took $((SECONDS - started)) s"
done
scripts/sum_results.py --failed-stages "${failed[*]}" "$results"
