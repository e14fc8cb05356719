// SPDX-License-Identifier: Apache-2.0
// When to evaluate without an event.
#pragma once

#include <optional>

#include "base/clock.h"
#include "model/config.h"
#include "policy/state.h"

namespace forestall::policy {

// When time alone changes the result: the grace period of a soft threshold ends, a condition
// expires, a wait for cleanup ends, or a kill leaves KillLimit::window. Always later than the last
// step. Until then a step on fresh but equal readings has the same result. Nullopt: never.
[[nodiscard]] std::optional<MonotonicTime> next_deadline(const Config& config, const State& state);

}  // namespace forestall::policy
