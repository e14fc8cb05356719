// SPDX-License-Identifier: Apache-2.0
// Rulesets as a part of a step: their kills obey the limits that those for thresholds obey.
//
// Order between kubelet's rules and rulesets: thresholds and limits on local storage are decided
// first. Rulesets are then evaluated in the order of the configuration, all of them, so that their
// windows of time stay current. At most one victim per step, whichever part selects it:
// - A ruleset's kill is held if the step kills, reads or reclaims for a threshold, or if a victim's
//   memory is still being released, or for at most kRestartWait (rulesets/engine.h) if a unit is
//   being restarted. Its chain then ends without a pause, and its detectors decide again at the
//   next reading. A threshold does not wait for a restart.
// - A ruleset's victim counts like every other one: its memory is credit for the thresholds, and
//   KillLimit counts it, and a unit that is restarted.
// A ruleset may kill a cgroup that is no workload, because its action names it. It never kills the
// root, a protected workload, what is around or in one, or the cgroups of the agent and of pid 1.
// Such a candidate, an empty one, and one whose kill failed, give way to the next one.
//
// A kill may wait for a prekill hook, which starts if the kill could be made now and no other hook
// runs. When the hook has ended, or at the latest when the time of the chain is over, the kill
// follows, but only of that victim, if a group still fires, it is still there and everything above
// permits it. A kill with oomd's preference needs no group that fires, as in oomd. Otherwise, or if
// another kill or restart began meanwhile, the wait is void: the chain ends without a pause, and
// the detectors decide again. Thresholds wait for no hook.
//
// A throttle or freeze of a cgroup that may never be killed is refused. Reclaim is not: it ends no
// process. What is held afterwards is in the state (rulesets/held_settings.h).
#pragma once

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

// Evaluates the rulesets if the observation has readings for them, and completes `decision`, the
// thresholds' decision of the same step. Sets `rules` and `rule_kill` of `next`.
void apply_rules(const Config& config, const State& state, const Observation& observation,
                 State& next, Decision& decision);

}  // namespace forestall::policy
