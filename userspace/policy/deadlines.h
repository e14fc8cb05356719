// SPDX-License-Identifier: Apache-2.0
// When to look although nothing has happened.
#pragma once

#include <optional>

#include "base/clock.h"
#include "model/config.h"
#include "policy/state.h"

namespace forestall::policy {

// When time alone changes the answer: the grace period of a soft threshold ends, a condition
// expires, or a wait for cleanup is over. Always later than the last step. Until then a step on
// the same readings, read anew, decides and reports the same. Nothing: never.
[[nodiscard]] std::optional<MonotonicTime> next_deadline(const Config& config, const State& state);

}  // namespace forestall::policy
