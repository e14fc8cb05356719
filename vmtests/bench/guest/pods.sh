# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# How pods are started, for boot.sh and run.sh.
RUN=/run/bench
SHIMS=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)

# start_pods FILE: one pod a line: name, slice, scope, oom_score_adj, limit, work.
start_pods() {
  limited=
  while read -r name slice scope adj limit work; do
    # The work is words.
    # shellcheck disable=SC2086
    systemd-run --quiet --scope --slice="$slice" --unit="$scope" -p Delegate=yes \
      -p MemoryMax="$limit" /forestall/bench_pod "$name" "$adj" "$SHIMS" \
      "$RUN/live/$name" $work </dev/null >>"$RUN/exits" 2>&1 3>&- &
    # Kubelet limits the pod as well, when all its containers are limited.
    [ "$limit" = infinity ] || limited="$limited $slice=$limit"
  done <"$1"
  while read -r name _; do
    tries=0
    until [ -e "$RUN/live/$name" ]; do
      tries=$((tries + 1))
      [ $tries -lt 600 ] || give_up "$name is not ready: $(tail -n 3 "$RUN/exits")"
      sleep 0.05
    done
  done <"$1"
  for each in $limited; do
    systemctl set-property --runtime "${each%%=*}" MemoryMax="${each#*=}"
  done
}

give_up() {
  echo "failure $*" >&3
  echo "== end" >&3
  exec sleep infinity
}
