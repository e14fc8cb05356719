#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# PID 1 of the guest: gives the machine what an ordinary host has, runs what /vmtests/plan.sh
# requests, reports how it ended, and switches the machine off. Everything for the harness goes to
# the second serial port (fd 3); the first one has the kernel's log, which is evidence when a case
# crashes it.

export PATH=/bin HOME=/root TMPDIR=/tmp TERM=linux

# Written by harness/image.py: TOKEN, CGROUP, MODE, FILTER, COMMAND and exports.
# shellcheck source=/dev/null
. /vmtests/plan.sh

# The leading newline keeps the line whole when a case died in the middle of one.
report() {
  printf '\n%s %s\n' "$TOKEN" "$*" >&3
}

# The last close waits until everything has gone out of the port.
switch_off() {
  exec 3>&-
  poweroff -f
}

unfit() {
  report unfit "$*"
  switch_off
}

mount_kernel_filesystems() {
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t devtmpfs devtmpfs /dev
  # What the kernel passes to the interpreter of a script that is executed by its descriptor.
  ln -s /proc/self/fd /dev/fd
  mkdir -p /dev/pts /dev/shm
  mount -t devpts devpts /dev/pts
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mount -t tmpfs -o mode=1777 tmpfs /tmp
  mount -t tmpfs -o mode=755 tmpfs /run
  mount -t tracefs tracefs /sys/kernel/tracing
  mount -t debugfs debugfs /sys/kernel/debug
  mount -t bpf bpf /sys/fs/bpf
}

# As systemd mounts it, with every controller handed to the first level.
mount_unified() {
  mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup ||
    unfit "cgroup2 cannot be mounted"
  # The file is one line of words.
  # shellcheck disable=SC2013
  for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control ||
      echo "vmtests: controller $controller cannot be enabled" >/dev/kmsg
  done
  grep -qw memory /sys/fs/cgroup/cgroup.subtree_control ||
    unfit "this kernel has no v2 memory controller"
}

# As a hybrid systemd host: one folder per v1 controller, an empty v2 tree beside.
mount_hybrid() {
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  while read -r controller _ _ enabled; do
    [ "$enabled" = 1 ] || continue
    mkdir "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" ||
      rmdir "/sys/fs/cgroup/$controller"
  done </proc/cgroups
  [ -e /sys/fs/cgroup/memory/memory.usage_in_bytes ] ||
    unfit "this kernel has no v1 memory controller"
  mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/unified
  mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
  mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
}

load_modules() {
  while read -r module; do
    insmod "/vmtests/modules/$module" || echo "vmtests: $module cannot be loaded" >/dev/kmsg
  done </vmtests/modules/order
}

run_plan() {
  cd /tmp || unfit "/tmp is missing"
  case "$MODE" in
  cases)
    setsid /forestall/bin/vm_cases --gtest_color=no --gtest_filter="$FILTER" \
      </dev/null >&3 2>&3 3>&-
    ;;
  command) setsid sh -c "$COMMAND" </dev/null >&3 2>&3 3>&- ;;
  shell)
    stty -F /dev/ttyS1 sane
    setsid -c sh -i <&3 >&3 2>&3 3>&-
    ;;
  esac
}

# harness/systemd.py: systemd mounts the cgroups, and runs this script again for the plan.
start_systemd() {
  exec 3>&-
  exec /lib/systemd/systemd
}

run_to_the_end() {
  report ready "$(uname -r)"
  run_plan
  report exit $?
  switch_off
}

if [ "$1" = plan ]; then
  exec 3<>/dev/ttyS1
  run_to_the_end
fi
mount_kernel_filesystems
exec 3<>/dev/ttyS1
stty -F /dev/ttyS1 raw -echo
case "$CGROUP" in
v1) mount_hybrid ;;
v2) mount_unified ;;
esac
load_modules
ip link set lo up
hostname forestall-vm
echo 0 >/proc/sys/kernel/kptr_restrict
echo 4 >/proc/sys/vm/nr_hugepages
[ "$(cat /proc/sys/vm/nr_hugepages)" = 4 ] || unfit "4 huge pages cannot be reserved"
if [ "$CGROUP" = systemd ]; then start_systemd; fi
run_to_the_end
