// SPDX-License-Identifier: Apache-2.0
// Proactive reclaim in the configuration, as a section and as an action of a ruleset. Each refusal
// names the value and its place.
#pragma once

#include <vector>

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "intake/ruleset_values.h"
#include "model/ruleset.h"

namespace forestall::intake {

// The value of an action. Valid only if no error was reported, as below.
[[nodiscard]] rulesets::ProactiveReclaim proactive_reclaim(const v1::ProactiveReclaim& given,
                                                           RuleValues values);

// The section `reclaim`: for each item a ruleset that always fires. `others` are those of
// `rulesets`, whose names differ.
[[nodiscard]] std::vector<rulesets::Ruleset> check_reclaim(
    const v1::Config& given, const std::vector<rulesets::Ruleset>& others, Report& report);

// Reports each item of `reclaim`, and each such action of `rulesets`, as impossible on cgroup v1.
// REQUIRES: `rulesets` are those of the report's file.
void find_proactive_reclaim(const v1::Config& given, const std::vector<rulesets::Ruleset>& rulesets,
                            Report& report);

}  // namespace forestall::intake
