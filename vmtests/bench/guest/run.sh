# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# One run from the resumed machine: starts the agent and the scenario's pods, makes the sampler give
# the "go", and sends the results. Sourced by boot.sh, with the order in $words.
TRACE=/sys/kernel/tracing/instances/bench

trace_on() {
  mkdir "$TRACE"
  echo mono >"$TRACE/trace_clock"
  echo 1024 >"$TRACE/buffer_size_kb"
  echo 'sig==9||sig==15' >"$TRACE/events/signal/signal_generate/filter"
  for event in signal/signal_generate oom/mark_victim sched/sched_process_exit; do
    echo 1 >"$TRACE/events/$event/enable"
  done
}

swap_on() {
  [ "$1" = 0 ] && return
  echo "$1" >/sys/block/zram0/disksize
  mkswap /dev/zram0 >/dev/null
  swapon /dev/zram0 || give_up "zram: no swap"
}

# Cost of the agent so far. Its unit may have restarted or be gone.
agent_cost() {
  systemctl show -p MainPID,ControlGroup,NRestarts "$unit" >"$RUN/unit"
  pid=$(sed -n 's/^MainPID=//p' "$RUN/unit")
  group=$(sed -n 's/^ControlGroup=//p' "$RUN/unit")
  echo "$1_monotonic $(cut -d' ' -f1 /proc/uptime)"
  echo "$1_cpu_us $(sed -n 's/^usage_usec //p' "/sys/fs/cgroup$group/cpu.stat")"
  sed -n "s/^VmRSS:[^0-9]*\([0-9]*\).*/$1_rss_kib \1/p" "/proc/$pid/status"
  sed -n "s/^VmHWM:[^0-9]*\([0-9]*\).*/$1_hwm_kib \1/p" "/proc/$pid/status"
  echo "$1_restarts $(sed -n 's/^NRestarts=//p' "$RUN/unit")"
}

# What the pod whose name begins with half holds, what zram holds of it, and how long it took to
# touch its hot half.
halves() {
  while read -r name cgroup _; do
    case $name in half*) ;; *) continue ;; esac
    [ -e "$cgroup/memory.current" ] || continue
    echo "end_half_kib $(($(cat "$cgroup/memory.current") / 1024))"
    awk '{print "end_zram_kib", int($3 / 1024)}' /sys/block/zram0/mm_stat
    [ ! -e "$RUN/touches" ] || od -A n -t d8 -w16 "$RUN/touches" |
      awk '{print "end_touch_count", $1; print "end_touch_us", $2}'
  done <"$BENCH/pods"
}

# The kernel's time to unmap memory, without an agent that could react.
unmap_cost() {
  [ -z "$unit" ] || systemctl stop "$unit"
  "$BENCH/bin/bench_unmap" 256M 5
}

# add_children: for each line, a pod's cgroup and a number, so many cgroups with a process in each.
add_children() {
  while read -r cgroup count; do
    while [ "$count" -gt 0 ]; do
      mkdir "$cgroup/child$count"
      # Of the child.
      # shellcheck disable=SC2016
      sh -c 'echo 0 >"$0/cgroup.procs" && exec sleep infinity' "$cgroup/child$count" 3>&- &
      count=$((count - 1))
    done
  done
}

# run AGENT SCENARIO LEAD_MS LAST_MS SETTLE_MS ZRAM LIMITED GUILTY...
run() {
  agent=$1 scenario=$2 lead=$3 last=$4 settle=$5 zram=$6 sampled=$7
  shift 7
  swap_on "$zram"
  trace_on
  unit=$(cd "$BENCH/agents/$agent" && GUILTY="$*" ./start 2>>"$RUN/start") ||
    give_up "$(cat "$RUN/start")"
  start_pods "$BENCH/scenarios/$scenario"
  add_children <"$BENCH/children/$scenario"
  while read -r slice quota; do
    systemctl set-property --runtime "$slice" CPUQuota="$quota"
  done <"$BENCH/quotas/$scenario"
  sleep 1
  {
    sed -n 's/^MemTotal: *\([0-9]*\).*/total_kib \1/p' /proc/meminfo
    [ -z "$unit" ] || agent_cost start
    sleep 2
    [ -z "$unit" ] || agent_cost rest
    live=
    for name in "$@"; do live="$live $RUN/live/$name"; done
    # shellcheck disable=SC2086
    "$BENCH/bin/bench_sample" "$lead" "$last" "$settle" "$RUN/samples" "$sampled" $live
    [ -z "$unit" ] || agent_cost end
    halves
    for path in "$RUN"/live/*; do echo "alive ${path##*/}"; done
    [ -z "$unit" ] || echo "active $(systemctl is-active "$unit")"
    echo 0 >"$TRACE/tracing_on"
    unmap_cost
  } >"$RUN/facts" 2>>"$RUN/start"
}

send() {
  echo "== facts"
  cat "$RUN/facts"
  echo "== samples"
  cat "$RUN/samples"
  echo "== delays"
  od -A n -v -t d8 -w16 "$RUN/probe" | grep -v '^ *0 *0$'
  echo "== trace"
  grep -v '^#' "$TRACE/trace"
  echo "== exits"
  cat "$RUN/exits"
  echo "== kernel"
  dmesg
  echo "== start"
  cat "$RUN/start"
  echo "== agent"
  [ -z "$unit" ] || journalctl --no-pager -o short-monotonic -u "$unit"
  echo "== end"
}

# shellcheck disable=SC2086,SC2154 # the order is words, from boot.sh
set -- $words
shift
run "$@"
send >&3
exec sleep infinity
