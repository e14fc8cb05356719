// SPDX-License-Identifier: Apache-2.0
// The section `rulesets` of the configuration, checked and turned into rulesets. Each refusal names
// the value and its place.
#pragma once

#include <vector>

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "model/ruleset.h"

namespace forestall::intake {

// The result is valid only if no error was reported.
[[nodiscard]] std::vector<rulesets::Ruleset> check_rulesets(const v1::Config& given,
                                                            Report& report);

}  // namespace forestall::intake
