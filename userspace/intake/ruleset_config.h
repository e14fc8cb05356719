// SPDX-License-Identifier: Apache-2.0
// The section `rulesets` of the configuration, checked and turned into rulesets. Each refusal names
// the value and its place.
#pragma once

#include <string_view>
#include <vector>

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "model/ruleset.h"

namespace forestall::intake {

// The result is valid only if no error was reported.
[[nodiscard]] std::vector<rulesets::Ruleset> check_rulesets(const v1::Config& given,
                                                            Report& report);

// Reports each action that only `forestall rules` evaluates. REQUIRES: `rulesets` are those that
// check_rulesets() made with this report's file, without an error.
void find_not_run_by_agent(const std::vector<rulesets::Ruleset>& rulesets, Report& report);
// Why the agent does not run the action; empty: it does.
[[nodiscard]] std::string_view not_run_by_agent(const rulesets::Plugin& action);

// The same for actions that need systemd.
void find_restarts(const std::vector<rulesets::Ruleset>& rulesets, Report& report);
inline constexpr std::string_view kNoSystemd =
    "it requires systemd, and /run/systemd/system does not exist; remove it";

}  // namespace forestall::intake
