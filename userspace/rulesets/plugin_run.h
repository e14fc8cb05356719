// SPDX-License-Identifier: Apache-2.0
// What the plugins of one evaluation share, and what one plugin runs for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rulesets/engine.h"

namespace forestall::rulesets {

// The answers to effects in the order in which they are wanted.
class EffectAnswers {
 public:
  // `answers` outlives it.
  explicit EffectAnswers(const std::vector<EffectAnswer>& answers) : answers_(answers) {}

  // The answer to an effect; nothing if the caller has to act first: return at once.
  [[nodiscard]] std::optional<EffectAnswer> answer(WantedEffect effect) {
    if (used_ < answers_.size()) return answers_[used_++];
    wanted_ = std::move(effect);
    return std::nullopt;
  }
  // The effect without an answer.
  [[nodiscard]] const std::optional<WantedEffect>& wanted() const { return wanted_; }

 private:
  const std::vector<EffectAnswer>& answers_;
  std::size_t used_ = 0;
  std::optional<WantedEffect> wanted_;
};

// One evaluation. The caller owns all of it.
struct RuleScope {
  const RuleConfig& config;
  const RuleObservation& observed;
  RuleState& state;
  RuleDecision& decision;
  EffectAnswers& effects;
  // Of proactive reclaim, in an earlier evaluation.
  std::optional<std::chrono::nanoseconds> last_write = {};
};

struct PluginRun {
  const Plugin* plugin = nullptr;
  PluginState* state = nullptr;
  std::string_view ruleset;
  const ChainRun* chain = nullptr;  // null: among the detectors, before a group fired
  ActionRun* report = nullptr;
  std::int64_t ruleset_pause = 0;  // seconds
  bool fires = true;  // a group, in this evaluation; of a chain that is resumed, maybe none
  // Set by an action that returned stop: seconds of the pause in place of the ruleset's.
  std::optional<std::int64_t> pause;
  std::int64_t extra_pause = 0;  // seconds in addition
};

}  // namespace forestall::rulesets
