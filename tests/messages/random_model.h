// SPDX-License-Identifier: Apache-2.0
// Random observations, decisions, records and scenes of the OOM killer, with every field.
#pragma once

#include "messages/dice.h"
#include "model/oom.h"
#include "model/oom_kill.h"
#include "model/record.h"
#include "model/rule_state.h"
#include "model/ruleset.h"

namespace forestall::test {

[[nodiscard]] Limit random_limit(Dice& dice);
[[nodiscard]] Threshold random_threshold(Dice& dice);
[[nodiscard]] Pod random_pod(Dice& dice);
[[nodiscard]] Observation random_observation(Dice& dice);
[[nodiscard]] Decision random_decision(Dice& dice);
[[nodiscard]] ProcessSample random_process(Dice& dice);
[[nodiscard]] OomScene random_scene(Dice& dice);
[[nodiscard]] OomPrediction random_prediction(Dice& dice);
[[nodiscard]] OomKill random_oom_kill(Dice& dice);
[[nodiscard]] Record random_record(Dice& dice);
[[nodiscard]] rulesets::Ruleset random_ruleset(Dice& dice);
[[nodiscard]] rulesets::PrekillHook random_hook(Dice& dice);
[[nodiscard]] rulesets::RuleObservation random_rule_observation(Dice& dice);
[[nodiscard]] rulesets::RuleState random_rule_state(Dice& dice);
[[nodiscard]] RuleReport random_rule_report(Dice& dice);

}  // namespace forestall::test
