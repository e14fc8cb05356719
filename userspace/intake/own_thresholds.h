// SPDX-License-Identifier: Apache-2.0
// Thresholds that kubelet does not have: on node signals with a key of their own (`untilOom`, see
// SignalRow::own_key), and on workloads' own limits (`ownLimit`).
#pragma once

#include "intake/config_check.h"
#include "intake/report.h"

namespace forestall::intake {

// Both append what is given to `checked`, but nothing that is refused or switched off.
void add_own_thresholds(const v1::Config& file, CheckedConfig& checked, Report& report);
void add_own_limits(const v1::Config& file, CheckedConfig& checked, Report& report);

}  // namespace forestall::intake
