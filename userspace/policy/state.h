// SPDX-License-Identifier: Apache-2.0
// What one step of the policy hands to the next (model/policy_state.h), and what of it outlives a
// change of the configuration.
#pragma once

#include "model/config.h"
#include "model/policy_state.h"

namespace forestall::policy {

using State = PolicyState;

// What is left for another Config: only what the node reports. A condition stays up for its
// transition period whatever the thresholds are now, and its fall is told.
[[nodiscard]] State reloaded(const State& before);

// Whether the thresholds, and what they are about, are the same in both.
[[nodiscard]] bool same_rules(const Config& before, const Config& after);

// The state to go on with when `after` takes the place of `before`: as it is if they have the same
// rules. Pods come and go by reload, too, and that leaves every grace period as it is.
[[nodiscard]] State reconfigured(const Config& before, const Config& after, const State& state);

}  // namespace forestall::policy
