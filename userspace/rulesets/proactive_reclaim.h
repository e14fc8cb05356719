// SPDX-License-Identifier: Apache-2.0
// Proactive reclaim: takes from cgroups what they do not use, as long as their pressure is below a
// target.
//
// The algorithm is that of senpai, with memory.reclaim in place of memory.high and with exact stall
// times in place of averages. The pressure of a cgroup is measured in windows of `every` seconds.
// - Stall time above the target's share of the window ends it at once: nothing is reclaimed for
//   `back_off` seconds, from the last evaluation at which the pressure was too high.
// - At the end of a window, the stall time is compared with what the target allows. With at most a
//   tenth of it, `step` percent of the usage is reclaimed; with more, a share that falls with the
//   square of the stall time, to a hundredth of `step` at the target.
// - Never more than `write_max` at once, never below `floor`, memory.min or memory.low: the kernel
//   does not protect a cgroup from a write to its own memory.reclaim.
//
// A reading that is missing never leads to a reclaim; a cgroup without stall times, and one that
// was not evaluated at the last evaluation, begins anew.
//
// The agent's own writes stall: the kernel counts the writing task, in the node's pressure as well.
// So the node's pressure is that of the last time between two evaluations in which no action wrote.
// If that ended three seconds ago or earlier, no cgroup is reclaimed from, until a second without a
// write is measured. A write that takes longer than that is a reason to back off.
#pragma once

#include <chrono>
#include <optional>

#include "rulesets/plugin_run.h"

namespace forestall::rulesets {

// When an action last decided to write; before the first ruleset runs: in an earlier evaluation.
[[nodiscard]] std::optional<std::chrono::nanoseconds> last_proactive_write(const RuleScope& scope);

PluginResult proactive_reclaim(const ProactiveReclaim& arguments, RuleScope& scope, PluginRun& run);

}  // namespace forestall::rulesets
