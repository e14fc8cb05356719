#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints an oomd.json with a ruleset for each pod whose name begins with be-rule.
separator=
echo '{"rulesets": ['
while read -r name cgroup _; do
  case $name in be-rule*) ;; *) continue ;; esac
  pod=${cgroup%/*}
  pod=${pod#/sys/fs/cgroup/}
  cat <<END
$separator{
  "name": "$name",
  "detectors": [[
    "stalled while reclaiming",
    {"name": "pressure_above", "args": {
      "cgroup": "$pod", "resource": "memory", "threshold": "90", "duration": "30"}},
    {"name": "memory_reclaim", "args": {"cgroup": "$pod", "duration": "10"}}
  ]],
  "actions": [{"name": "kill_by_memory_size_or_growth", "args": {"cgroup": "$pod/*"}}]
}
END
  separator=,
done <"$BENCH/pods"
echo ']}'
