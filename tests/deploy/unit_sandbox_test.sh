#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# unit_sandbox_test.sh UNIT FORESTALL PROGRAM:FILTER...: fails if the privileges that UNIT leaves
# the agent do not suffice. FORESTALL doctor must find the same features with and without them, and
# tests of real kills must pass while a system call outside of the unit's list ends the agent.
set -eu

unit=$1 forestall=$2
shift 2
sandbox=$(dirname "$0")/unit_sandbox.py
command -v systemd-analyze >/dev/null || { echo 'not applicable: needs systemd-analyze'; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Feature and state of each line of doctor.
features() {
  "$@" "$forestall" doctor -o text |
    sed -n '/^  feature/,/^$/s/^  \([a-z-]*\)  *\([a-z-]*\) .*/\1 \2/p' | grep -v '^oom-score-adj '
}
features env >"$scratch/all"
features "$sandbox" "$unit" >"$scratch/unit"
features env FORESTALL_SANDBOX=kill "$sandbox" "$unit" >"$scratch/kill"
grep -q '^pidfd in-use$' "$scratch/all" || { echo 'doctor shows no features'; exit 1; }
diff "$scratch/all" "$scratch/unit"
diff "$scratch/all" "$scratch/kill"

{
  echo '#!/bin/sh'
  echo "exec env FORESTALL_SANDBOX=kill '$sandbox' '$unit' '$forestall' \"\$@\""
} >"$scratch/forestall"
chmod +x "$scratch/forestall"
for run in "$@"; do
  FORESTALL_BIN=$scratch/forestall ${run%%:*} --gtest_brief=1 --gtest_filter="${run#*:}"
done
