#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# alerts_test.sh RULES TESTS: fails if promtool refuses the alert rules in RULES, or if one of the
# TESTS fails. Exits with 77 if promtool is not installed.
set -eu

if ! command -v promtool >/dev/null; then
  echo "not applicable: needs promtool; runs here after scripts/install_packages.sh test"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$1" "$scratch/alerts.yaml"
cp "$2" "$scratch/tests.yaml"
promtool check rules "$scratch/alerts.yaml"
promtool test rules "$scratch/tests.yaml"
