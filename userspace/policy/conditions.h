// SPDX-License-Identifier: Apache-2.0
// Node conditions over time (pkg/kubelet/eviction/helpers.go nodeConditionsLastObservedAt,
// nodeConditionsObservedSince).
#pragma once

#include <array>

#include "base/clock.h"
#include "model/condition.h"
#include "policy/state.h"

namespace forestall::policy {

// Conditions with a threshold met now, whatever its grace period; in the order of kConditions.
using Pressure = std::array<bool, kConditions.size()>;
using Reports = std::array<State::Reported, kConditions.size()>;

// The reported conditions at `now`: every condition met now or strictly less than `transition` ago.
// Updates `reports`, and marks changes against them. A condition that was never reported and is not
// now has not changed.
[[nodiscard]] Conditions report(const Pressure& pressure, Duration transition, MonotonicTime now,
                                Reports& reports);

// Adds to `reports` the pressure of a step whose state is not kept otherwise. report() marks the
// change in the next step, which may find the memory free again.
void keep_pressure(const Reports& met, Reports& reports);

}  // namespace forestall::policy
