// SPDX-License-Identifier: Apache-2.0
// The kill actions, from ranking to outcome, with their prekill hooks; and systemd_restart.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "rulesets/plugin_run.h"
#include "rulesets/usage_history.h"

namespace forestall::rulesets {

class KillActions {
 public:
  // Both outlive it.
  KillActions(RuleScope& scope, const UsageHistory& history)
      : scope_(scope), history_(history), hooks_(scope.config.program.hooks()) {}

  // Both end without a meaning if an effect is wanted.
  PluginResult run(const Kill& arguments, PluginRun& run);
  // Of a restart whose result is not there yet, PluginState::since is when it was requested.
  PluginResult run(const RestartUnit& arguments, PluginRun& run);

 private:
  enum class KillEnd : std::uint8_t { killed, none, deferred, held };

  // held: the chain ends without a kill and without a pause.
  KillEnd resume_kill(const Kill& arguments, PluginRun& run);
  // `stack` ends with the best candidate.
  KillEnd try_candidates(const Kill& arguments, PluginRun& run, std::vector<const Cgroup*> stack);
  [[nodiscard]] bool hooks_in_time(const PluginRun& run) const;
  // The hook of this victim ran lately, and its kill did not follow.
  [[nodiscard]] bool ran_lately(PluginRun& run, const Cgroup& victim) const;
  void keep_hook(PluginRun& run, const HookWait& wait) const;
  // deferred: the kill of the victim now waits for a hook. held: no kill may be made now. none: the
  // kill follows, unless an effect is wanted.
  KillEnd begin_hook(PluginRun& run, const Cgroup& victim, const std::vector<const Cgroup*>& stack);
  KillEnd kill_cgroup(PluginRun& run, const Cgroup& victim);
  // Until when a hook that starts now may take.
  [[nodiscard]] std::chrono::nanoseconds hook_end(const PluginRun& run) const;
  [[nodiscard]] bool is_dry(const PluginRun& run) const;
  void report_wait(PluginRun& run, const HookWait& wait, bool starts) const;
  void collect_pgscan(const Kill& arguments, PluginState& state);
  [[nodiscard]] bool waits() const { return scope_.effects.wanted().has_value(); }

  RuleScope& scope_;
  const UsageHistory& history_;
  const std::vector<PrekillHook> hooks_;
};

}  // namespace forestall::rulesets
