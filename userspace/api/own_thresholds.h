// SPDX-License-Identifier: Apache-2.0
// Thresholds that no kubelet has: the backstop on memory.untilOom, and those on workloads' own
// limits. Keys `untilOom` and `ownLimit` of the configuration file.
#pragma once

#include "api/config_check.h"
#include "api/report.h"

namespace forestall::api {

// Both append to `checked` what was given, and nothing for what was refused or switched off.
void add_until_oom(const v1::Config& file, CheckedConfig& checked, Report& report);
void add_own_limits(const v1::Config& file, CheckedConfig& checked, Report& report);

}  // namespace forestall::api
