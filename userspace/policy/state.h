// SPDX-License-Identifier: Apache-2.0
// State passed from one policy step to the next (model/policy_state.h), and the part that survives
// a change of the configuration.
#pragma once

#include "model/config.h"
#include "model/policy_state.h"

namespace forestall::policy {

using State = PolicyState;

// The state for another Config: only the reported conditions. A condition stays set for its
// transition period whatever the thresholds are now, and its end is reported.
[[nodiscard]] State reloaded(const State& before);

// Whether the thresholds and everything they depend on are the same in both.
[[nodiscard]] bool same_rules(const Config& before, const Config& after);

// The state after `after` replaces `before`: unchanged if they have the same rules. Pods also
// change by reload, and that leaves every grace period unchanged. The state of a ruleset depends on
// that ruleset only.
[[nodiscard]] State reconfigured(const Config& before, const Config& after, const State& state);

}  // namespace forestall::policy
