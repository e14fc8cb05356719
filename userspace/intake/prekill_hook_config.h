// SPDX-License-Identifier: Apache-2.0
// The section `prekillHooks` of the configuration. Each refusal names the value and its place.
#pragma once

#include <vector>

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "model/ruleset.h"

namespace forestall::intake {

// Longest time that kills may wait for hooks: five minutes.
inline constexpr std::int64_t kHookSecondsMax = 300;

// The result is valid only if no error was reported. Whether a program exists, and which users may
// change it, is checked when it is run.
[[nodiscard]] std::vector<rulesets::PrekillHook> check_prekill_hooks(const v1::Config& given,
                                                                     Report& report);

}  // namespace forestall::intake
