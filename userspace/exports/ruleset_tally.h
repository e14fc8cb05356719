// SPDX-License-Identifier: Apache-2.0
// What each ruleset did since the start of the agent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "exports/sink.h"
#include "model/config.h"
#include "model/rule_report.h"

namespace forestall::exports {

inline constexpr std::size_t kRuleOutcomeCount =
    static_cast<std::size_t>(RuleOutcome::node_stalls) + 1;

struct RulesetCounts {
  std::string name;
  std::uint64_t fired = 0;                  // evaluations in which a group fired
  std::optional<MonotonicTime> last_fired;  // nothing: not since the start
  std::string last_group;                   // of detectors, that fired last
  bool paused = false;                      // in the last evaluation of rulesets
  // Cgroups that its actions acted on, or tried to, by outcome.
  std::array<std::uint64_t, kRuleOutcomeCount> attempts{};

  friend bool operator==(const RulesetCounts&, const RulesetCounts&) = default;
};

// Thread rule: one thread, the loop's.
class RulesetTally {
 public:
  // These rulesets are counted from now on, in this order; those of the same name go on.
  void configured(const Config& config);
  // Does nothing if rulesets were not evaluated.
  void evaluated(const Evaluation& evaluation);
  [[nodiscard]] const std::vector<RulesetCounts>& all() const { return all_; }

 private:
  std::vector<RulesetCounts> all_;
};

}  // namespace forestall::exports
