// SPDX-License-Identifier: Apache-2.0
// Values that compare an evaluation with those before it: average usage and cost of I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rulesets/plugin_run.h"

namespace forestall::rulesets {

// Adds the cgroups that a kill of `cgroup` may select, by id.
void cover(const RuleObservation& observed, const Cgroup& cgroup, bool recursive,
           std::map<std::uint64_t, const Cgroup*>& all);

class UsageHistory {
 public:
  // `scope` outlives it.
  explicit UsageHistory(const RuleScope& scope) : scope_(scope) {}

  // Once in each evaluation, before the others.
  void update(const std::vector<RulesetInstance>& order);
  // Of a cgroup covered at this evaluation; nothing if a reading is missing.
  [[nodiscard]] std::optional<double> growth(const Cgroup& cgroup) const;
  [[nodiscard]] std::optional<double> io_cost(const Cgroup& cgroup) const;

 private:
  const RuleScope& scope_;
  std::map<std::uint64_t, double> io_rate_;  // since the last evaluation
};

}  // namespace forestall::rulesets
