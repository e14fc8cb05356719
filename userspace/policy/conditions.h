// SPDX-License-Identifier: Apache-2.0
// Node conditions over time (kubelet.md §3 steps 7 and 8; pkg/kubelet/eviction/helpers.go
// nodeConditionsLastObservedAt, nodeConditionsObservedSince).
#pragma once

#include <array>

#include "base/clock.h"
#include "model/condition.h"
#include "policy/state.h"

namespace forestall::policy {

// Behind which conditions a threshold is met now, whatever its grace period; as kConditions.
using Pressure = std::array<bool, kConditions.size()>;
using Reports = std::array<State::Reported, kConditions.size()>;

// What is reported at `now`: every condition met now or less than `transition` ago, strictly, so
// that at exactly the period it is gone. Updates `reports`, and marks what changed against them; a
// condition that was never reported and is not now has not changed.
[[nodiscard]] Conditions report(const Pressure& pressure, Duration transition, MonotonicTime now,
                                Reports& reports);

}  // namespace forestall::policy
