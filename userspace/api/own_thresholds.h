// SPDX-License-Identifier: Apache-2.0
// Thresholds that kubelet does not have: the backstop on memory.untilOom, and thresholds on
// workloads' own limits. Keys `untilOom` and `ownLimit` of the configuration file.
#pragma once

#include "api/config_check.h"
#include "api/report.h"

namespace forestall::api {

// Both append the given thresholds to `checked`; refused or disabled ones add nothing.
void add_until_oom(const v1::Config& file, CheckedConfig& checked, Report& report);
void add_own_limits(const v1::Config& file, CheckedConfig& checked, Report& report);

}  // namespace forestall::api
