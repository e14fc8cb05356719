// SPDX-License-Identifier: Apache-2.0
// Which detectors and actions of a ruleset lack what they read or set on a host, for `forestall
// doctor`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/rule_observation.h"
#include "model/ruleset.h"

namespace forestall::rulesets {

// A detector or an action that lacks something.
struct UnreadPlugin {
  std::string plugin;  // its name, as configured
  bool is_action = false;
  // Empty: no cgroup matches its patterns now. Otherwise none of those that match has these, each
  // by the name of a file or of what is read.
  std::vector<std::string_view> missing;

  friend bool operator==(const UnreadPlugin&, const UnreadPlugin&) = default;
};

// In the order of the ruleset. `observed` was read for it (sources::RuleSampleReader). For an
// incomplete observation, and for plugins that read no cgroup, nothing is reported.
[[nodiscard]] std::vector<UnreadPlugin> unread_plugins(const Ruleset& ruleset,
                                                       const RuleObservation& observed);

}  // namespace forestall::rulesets
