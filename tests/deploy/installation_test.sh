#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# installation_test.sh BUILD SBINDIR: fails if an installation of the build tree BUILD has no unit,
# man page, example configuration, drop-in, D-Bus policy, alert rules or shell completions, or if
# the unit starts a program outside of SBINDIR.
set -eu

for file in forestall.service forestall.8 config.yaml alerts.yaml systemd-oomd.conf \
  forestall-oom1.conf; do
  grep -q "/$file\"" "$1/cmake_install.cmake" || { echo "installation: no $file"; exit 1; }
done
for place in bash-completion/completions:forestall zsh/site-functions:_forestall \
  fish/vendor_completions.d:forestall.fish; do
  grep -q "/${place%:*}\" .* RENAME \"${place#*:}\"" "$1/userspace/cli/cmake_install.cmake" ||
    { echo "installation: no completions in ${place%:*}"; exit 1; }
done
for file in forestall.service systemd-oomd.conf; do
  grep -q -x -F "ExecStart=$2/forestall agent --keep-guard systemd" "$1/$file" ||
    { echo "installation: $file does not start $2/forestall"; exit 1; }
done
