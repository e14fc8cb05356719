#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets the properties on the slice of each pod whose name begins with be-rule.
set -e
while read -r name cgroup _; do
  case $name in be-rule*) ;; *) continue ;; esac
  pod=${cgroup%/*}
  systemctl set-property --runtime "${pod##*/}" ManagedOOMMemoryPressure=kill \
    ManagedOOMMemoryPressureLimit=90%
done <"$BENCH/pods"
