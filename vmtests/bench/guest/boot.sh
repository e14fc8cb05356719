#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bench's part in the guest until the machine is saved: starts the steady pods and prints READY.
# Every run resumes here, mounts its own disk and runs run.sh from it. Lines to and from the host go
# through a virtio port (fd 3).
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
EARLY=/forestall
export BENCH=$EARLY/late
# shellcheck source=/dev/null
. $EARLY/pods.sh

exec 3<>/dev/vport0p1
mkdir -p "$RUN/live"
mkfifo "$RUN/go"
: >"$RUN/exits"
: >"$RUN/start"
start_pods $EARLY/steady
# The rest of the boot happens before the machine is saved.
systemctl is-system-running --wait >/dev/null
sleep 3
echo READY >&3
# shellcheck disable=SC2034 # used by run.sh
read -r words <&3
mount -t ext4 -o ro,noload /dev/vdd "$BENCH" || give_up "no disk for this run"
# shellcheck source=/dev/null
. "$BENCH/run.sh"
