// SPDX-License-Identifier: Apache-2.0
// What rulesets do besides kills: settings of cgroups, reclaim, restarts of units, prekill hooks,
// log lines.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "actuators/rule_settings.h"
#include "agent/hook_tracker.h"
#include "agent/restart_tracker.h"
#include "exports/log.h"
#include "exports/loop_counts.h"
#include "model/config.h"
#include "model/policy_state.h"
#include "model/record.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class RuleEffects {
 public:
  // What it uses; all of it outlives it.
  struct EffectsInput {
    exports::Log& log;
    exports::LoopCounts& counts;
    actuators::RuleSettings& settings;
    RestartTracker& restarts;
    HookTracker& hooks;
  };

  explicit RuleEffects(EffectsInput input)
      : log_(input.log),
        counts_(input.counts),
        settings_(input.settings),
        restarts_(input.restarts),
        hooks_(input.hooks) {}

  // Before the first evaluation, and when the configuration was replaced: prepares for what its
  // rulesets may set, and logs if this host cannot.
  void configured(const Config& config);
  // Sets what the state after this evaluation holds, and undoes what it no longer holds. A dry run
  // sets nothing. Logs what rulesets did: an attempt that is repeated at each evaluation once, and
  // no kill, which has a record. Returns whether it requested a restart.
  bool evaluated(const Config& config, const PolicyState& state, const Record& record);

 private:
  void log_decision(const Decision& decision);
  void log_attempt(const RuleReport& ruleset, const RuleActionReport& action,
                   const RuleAttempt& attempt) const;
  void start_parts(const Config& config);
  bool request_restarts(const Decision& decision);
  bool is_first(std::set<std::string>& logged, std::string key) const;
  void log_proactive(const RuleReport& ruleset, const RuleActionReport& action,
                     const RuleAttempt& attempt);
  void count_back_offs(const Decision& decision);
  void log_results();
  void note_dropped(const actuators::RuleSettingResult& result);
  void log_restarts() const;
  void request_hooks(const Config& config, const Record& record);
  void note_hooks();

  exports::Log& log_;
  exports::LoopCounts& counts_;
  actuators::RuleSettings& settings_;
  RestartTracker& restarts_;
  HookTracker& hooks_;
  // Of the configuration in force. A change of a ruleset ends its hooks; one of the hooks ends all.
  SharedValue<std::vector<rulesets::Ruleset>> rules_in_force_;
  SharedValue<std::vector<rulesets::PrekillHook>> hooks_in_force_;
  std::set<std::string> logged_;  // attempts of the last evaluation of rulesets
  // Since the rulesets are in force, by ruleset and cgroup.
  std::set<std::string> proactive_logged_;  // attempts
  std::set<std::string> proactive_failed_;
};

}  // namespace forestall::agent
