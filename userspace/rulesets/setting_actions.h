// SPDX-License-Identifier: Apache-2.0
// Actions that change a setting of cgroups, some of them for a time, or only log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "rulesets/plugin_run.h"

namespace forestall::rulesets {

class SettingActions {
 public:
  // `scope` outlives it.
  explicit SettingActions(RuleScope& scope) : scope_(scope) {}

  PluginResult run(const ReclaimMemory& arguments, PluginRun& run);
  PluginResult run(const Throttle& arguments, PluginRun& run);
  PluginResult run(const Freeze& arguments, PluginRun& run);
  PluginResult run(const LogAction& arguments, const PluginRun& run);
  // Ends what throttles and freezes of the ruleset held until now.
  void end_held(const Ruleset& ruleset, RulesetState& state);

 private:
  void set(const Cgroup& cgroup, std::string_view file, HeldSetting setting, bool dry,
           PluginRun& run);
  void write(const Cgroup& cgroup, std::string_view file, std::int64_t value);

  RuleScope& scope_;
};

}  // namespace forestall::rulesets
