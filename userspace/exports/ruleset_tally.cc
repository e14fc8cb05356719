// SPDX-License-Identifier: Apache-2.0
#include "exports/ruleset_tally.h"

#include <algorithm>
#include <utility>

namespace forestall::exports {
namespace {

void count(const RuleReport& report, MonotonicTime at, RulesetCounts& counts) {
  counts.paused = report.paused;
  if (report.group) {
    ++counts.fired;
    counts.last_fired = at;
    counts.last_group = *report.group;
  }
  for (const RuleActionReport& action : report.actions) {
    for (const RuleAttempt& attempt : action.attempts) {
      ++counts.attempts[static_cast<std::size_t>(attempt.outcome)];
    }
  }
}

}  // namespace

void RulesetTally::configured(const Config& config) {
  std::vector<RulesetCounts> before = std::exchange(all_, {});
  if (!config.rules) return;
  for (const rulesets::Ruleset& ruleset : *config.rules) {
    const auto known = std::ranges::find(before, ruleset.name, &RulesetCounts::name);
    if (known != before.end()) {
      all_.push_back(std::move(*known));
    } else {
      all_.emplace_back().name = ruleset.name;
    }
  }
}

void RulesetTally::evaluated(const Evaluation& evaluation) {
  if (!evaluation.observation.rules) return;
  for (RulesetCounts& counts : all_) counts.paused = false;
  for (const RuleReport& report : evaluation.decision.rulesets) {
    const auto known = std::ranges::find(all_, report.name, &RulesetCounts::name);
    if (known != all_.end()) count(report, evaluation.observation.at, *known);
  }
}

}  // namespace forestall::exports
