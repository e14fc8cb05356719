#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# service_unit_test.sh UNIT DROP-IN: fails if systemd would ever stop restarting the agent or delete
# its run directory between two starts, if UNIT permits systemd-oomd beside it, if DROP-IN, which
# makes systemd-oomd.service an agent, lacks a setting of UNIT, or if systemd finds a fault in one
# of them. systemd-analyze verifies them where it is installed.
set -eu

unit=$1

# setting SECTION LINE: LINE is in [SECTION] of the unit.
setting() {
  sed -n "/^\[$1\]/,/^\[/p" "$unit" | grep -q -x -F "$2" ||
    { echo "service unit: [$1] has no $2"; exit 1; }
}

setting Unit StartLimitIntervalSec=0
setting Unit "Conflicts=systemd-oomd.service systemd-oomd.socket"
setting Service Restart=always
setting Service FileDescriptorStoreMax=16
# Of --keep-guard systemd; the agent's messages are the main process's.
setting Service Type=notify
! grep -q '^NotifyAccess=' "$unit" ||
  { echo "service unit: NotifyAccess is not the default"; exit 1; }
setting Service RuntimeDirectoryPreserve=yes
setting Service RestartSec=1
setting Service RestartSteps=7
setting Service RestartMaxDelaySec=10

# The last setting of a key counts, or adds to those before it.
sed -n '/^\[Service\]/,/^\[Install\]/p' "$unit" | grep '^[A-Z]' | while read -r line; do
  grep -q -x -F -e "$line" "$2" || { echo "drop-in: [Service] has no $line"; exit 1; }
done

command -v systemd-analyze >/dev/null || exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The program is not installed where the test runs.
sed 's|^ExecStart=.*|ExecStart=/bin/true|' "$unit" >"$scratch/forestall.service"
# systemd before 254 does not have the two settings. It must ignore exactly these.
mkdir "$scratch/systemd-oomd.service.d"
printf '[Service]\nType=notify\nExecStart=/bin/false\nAmbientCapabilities=CAP_KILL\n' \
  >"$scratch/systemd-oomd.service"
sed 's|^ExecStart=/.*|ExecStart=/bin/true|' "$2" >"$scratch/systemd-oomd.service.d/forestall.conf"
faults=$(systemd-analyze verify --man=no "$scratch/forestall.service" \
  "$scratch/systemd-oomd.service" 2>&1 | grep -F "$scratch/" |
  grep -v -E "Unknown key( name)? 'Restart(Steps|MaxDelaySec)' in section") || true
[ -z "$faults" ] || { echo "service unit: $faults"; exit 1; }
