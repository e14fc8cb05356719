#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All checks and tests, from a bare Debian 12, in one command: source checks, integration tests on
# this host, VM tests on each kernel, unit and integration tests under sanitizers, short fuzzing.
# After a failed stage the next ones still run.
#   scripts/test.sh                 all stages but lint and hostile
#   scripts/test.sh STAGE…          only these: the above, lint (clang-tidy) or hostile, which
#                                   takes hours (rounds and seed: HOSTILE_ARGUMENTS)
# The stage cluster runs in a real Kubernetes cluster. Named, it first builds Kubernetes into
# FORESTALL_CLUSTER_CACHE (default: ~/.cache/forestall/cluster); in a run of all stages it
# reports that and is left out if that was never done.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=$PWD/build/results
repeated_max=5

stages=("$@") named=yes
[[ ${#stages[@]} -gt 0 ]] || named=no
[[ ${#stages[@]} -gt 0 ]] || stages=(checks host cluster vm asan tsan fuzz)

build_target() { # PRESET TARGET
  cmake --preset "$1" --log-level=WARNING >/dev/null && ninja -C "build/$1" --quiet "$2"
}
build() { build_target "$1" all; }

# A few failed suites run once more, one by one, and both outcomes are printed: this separates real
# failures from a machine that stalled for a second.
run_ctest() { # STAGE PRESET [ctest arguments]
  local stage=$1 preset=$2 failed
  shift 2
  # sum_results.py reads each case of a suite from its whole output.
  local command=(ctest --test-dir "build/$preset" --output-on-failure --timeout 300
    --test-output-size-passed 10000000 --test-output-size-failed 10000000)
  rm -f "build/$preset/Testing/Temporary/LastTestsFailed.log"
  "${command[@]}" --output-junit "$results/$stage.xml" --no-tests=error \
    --parallel "$(nproc)" "$@" && return
  failed=$(wc -l <"build/$preset/Testing/Temporary/LastTestsFailed.log") || return
  ((failed >= 1 && failed <= repeated_max)) || return
  echo "== $stage: $failed failed, tried once more"
  # By number: ctest numbers only tests that -E does not exclude, so the same arguments are needed.
  "${command[@]}" --output-junit "$results/$stage.again.xml" --rerun-failed "$@"
}

stage_checks() { scripts/check_sources.py --junit "$results/checks.xml"; }
# Unit tests run once, in the stage asan. Those labelled `optimized-unit` run here too.
stage_host() { build test && run_ctest host test -LE '^unit'; }
stage_lint() { build test && scripts/lint.py --build build/test --junit "$results/lint.xml"; }
# Without tests of what the kernel does, which host and vm run: forests of hundreds of processes,
# kills by BPF programs while the agent is stopped, kinds of memory.
stage_asan() {
  local of_the_kernel='^(Oom(Prediction|KillRecord)|TaskScan|GuardTrial|Each/HostileOffence)'
  build asan && run_ctest asan asan -LE fuzz -E "$of_the_kernel"
}
stage_tsan() {
  local threadless='^(Wake/|Bpf|Oom(KillRecord|Log|Prediction)|ProcessSource|TaskScan)'
  build_target tsan forestall_thread_tests && run_ctest tsan tsan -L threads -E "$threadless"
}
stage_fuzz() { build_target asan fuzz_all && run_ctest fuzz asan -L fuzz; }
stage_hostile() {
  # shellcheck disable=SC2086 # a list of arguments
  build_target test hostile_campaign &&
    build/test/tests/hostile/hostile_campaign ${HOSTILE_ARGUMENTS:---rounds 10000}
}
# A guest waits more than it computes: run as many at once as there are CPUs.
stage_vm() {
  build test &&
    vmtests/run.py --kernel all --jobs "$(nproc)" --binaries build/test \
      --results "$results/vm.json"
}

cluster_cache=${FORESTALL_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/forestall/cluster}
stage_cluster() {
  local report=(--cache "$cluster_cache" --junit "$results/cluster.xml") probed=0
  # Before anything is built: a machine that cannot run it counts as not applicable.
  tests/real_cluster/run.py --probe "${report[@]}" || probed=$?
  ((probed != 77)) || return 0
  ((probed == 0)) || return "$probed"
  if [[ $named == no ]] && ! tests/real_cluster/build_kubernetes.sh --check "$cluster_cache"; then
    echo "cluster: not run, because $cluster_cache has no Kubernetes;" \
      "'scripts/test.sh cluster' builds it once"
    return
  fi
  # The packages that only the build of Kubernetes needs are not needed to run it.
  { tests/real_cluster/build_kubernetes.sh --check "$cluster_cache" ||
    { scripts/install_packages.sh cluster &&
      tests/real_cluster/build_kubernetes.sh "$cluster_cache"; }; } &&
    build test &&
    scripts/image.sh --build build/test --output build/image/forestall.tar &&
    tests/real_cluster/run.py --image build/image/forestall.tar "${report[@]}"
}

# If sessions have CPU shares of their own (sched(7), autogroup), each guest is one, and a nice
# value counts within our session only: so our session is made nice.
nice_session() { # NICE
  { echo "$1" >/proc/self/autogroup; } 2>/dev/null || true
}

# Guests and tests that run alone leave some of the CPUs idle, which is enough to build for the next
# stage that needs a build.
build_ahead() { # LATER-STAGE…
  for stage in "$@"; do
    case $stage in
      asan) build asan && return ;;
      tsan) build_target tsan forestall_thread_tests && return ;;
      fuzz) build_target asan fuzz_all && return ;;
    esac
  done
}

rm -rf "$results"
mkdir -p "$results"
scripts/install_packages.sh test || exit 1
failed=()
for i in "${!stages[@]}"; do
  stage=${stages[i]}
  declare -F "stage_$stage" >/dev/null || {
    echo "$0: no stage '$stage'; stages are: checks host cluster lint vm asan tsan fuzz hostile" >&2
    exit 2
  }
  echo "== $stage"
  started=$SECONDS
  [[ $stage != vm ]] || nice_session 19
  if [[ $stage == vm || $stage == asan ]]; then
    # Its own stage repeats the failure and prints it.
    (renice -n 19 "$BASHPID" && build_ahead "${stages[@]:i + 1}") >/dev/null 2>&1 &
  fi
  # A stage can fail before it has a test to report: sum_results.py prints the end of its output.
  "stage_$stage" 2>&1 | tee "$results/$stage.log" || failed+=("$stage")
  nice_session 0
  wait
  echo "== $stage took $((SECONDS - started)) s"
done
scripts/sum_results.py --failed-stages "${failed[*]}" "$results"
