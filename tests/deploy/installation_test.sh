#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# installation_test.sh INSTALL_SCRIPT UNIT SBINDIR: fails if an installation has no unit, man page
# or example configuration, or if UNIT starts a program outside of SBINDIR.
set -eu

for file in forestall.service forestall.8 config.yaml; do
  grep -q "/$file\"" "$1" || { echo "installation: no $file"; exit 1; }
done
grep -q -x -F "ExecStart=$3/forestall agent" "$2" ||
  { echo "installation: the unit does not start $3/forestall"; exit 1; }
