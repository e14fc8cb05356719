// SPDX-License-Identifier: Apache-2.0
// Which rulesets of another configuration a recording can decide. The recorded agent read only what
// its own rulesets needed then (rulesets/reading_plan.h). A ruleset whose readings are missing is
// not decided, and its detectors begin anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/shared_value.h"
#include "model/rule_observation.h"
#include "model/ruleset.h"
#include "rulesets/needs.h"
#include "rulesets/reading_plan.h"

namespace forestall::replay {

class RuleCoverage {
 public:
  using Rulesets = SharedValue<std::vector<rulesets::Ruleset>>;
  // Of one ruleset.
  struct Missing {
    std::uint64_t readings = 0;  // recorded readings at which it was not decided
    Duration time{0};            // until one at which it was decided, or until finish()
    std::optional<MonotonicTime> since;
  };

  // In force from now on. Null: none.
  void use(const Rulesets& recorded, const Rulesets& replayed);
  // An evaluation of the recording: sets which rulesets of the other configuration are `deferred`.
  // REQUIRES: use(); `at` does not decrease.
  void take(MonotonicTime at, SharedValue<rulesets::RuleObservation>& observation);
  // The end of the recording.
  void finish(MonotonicTime at);

  // By name; without those that were always decided.
  [[nodiscard]] const std::map<std::string, Missing>& missing() const { return missing_; }

 private:
  struct Reading {
    const rulesets::Ruleset* ruleset = nullptr;
    rulesets::RulesetReading plan;
    // Of a recorded one that is read in part while its gates are shut: whether one of them was open
    // at the last reading, and until when all of it was read for certain.
    bool was_above = false;
    std::chrono::nanoseconds whole_until{0};
  };
  enum class Verdict : std::uint8_t { decided, deferred, missing };

  static std::vector<Reading> readings_of(const Rulesets& rulesets);
  [[nodiscard]] const Reading* recorded(const std::string& name) const;
  [[nodiscard]] Verdict verdict(const Reading& reading,
                                const rulesets::RuleObservation& observation,
                                const std::vector<rulesets::RuleNeed>& read) const;
  [[nodiscard]] std::vector<rulesets::RuleNeed> read_at(
      const rulesets::RuleObservation& observation);
  void note_missing(MonotonicTime at, const std::string& ruleset);
  void note_decided(MonotonicTime at, const std::string& ruleset);

  Rulesets recorded_rules_;
  Rulesets replayed_rules_;
  std::vector<Reading> recorded_;
  std::vector<Reading> replayed_;
  std::map<std::string, Missing> missing_;
};

// Whether readings for `read` have all that `need` is about.
[[nodiscard]] bool covers(const std::vector<rulesets::RuleNeed>& read,
                          const rulesets::RuleNeed& need);

}  // namespace forestall::replay
