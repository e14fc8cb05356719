// SPDX-License-Identifier: Apache-2.0
// Observations, decisions and records made at random, every field of them.
#pragma once

#include "api/dice.h"
#include "model/record.h"

namespace forestall::test {

[[nodiscard]] Limit random_limit(Dice& dice);
[[nodiscard]] Threshold random_threshold(Dice& dice);
[[nodiscard]] Pod random_pod(Dice& dice);
[[nodiscard]] Observation random_observation(Dice& dice);
[[nodiscard]] Decision random_decision(Dice& dice);
[[nodiscard]] Record random_record(Dice& dice);

}  // namespace forestall::test
