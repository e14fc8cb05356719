// SPDX-License-Identifier: Apache-2.0
// One evaluation of rulesets, for the files that implement the plugins. engine.h is the interface.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rulesets/engine.h"

namespace forestall::rulesets {

// Whole seconds that have passed, as oomd compares durations.
[[nodiscard]] std::int64_t seconds_between(std::chrono::nanoseconds from,
                                           std::chrono::nanoseconds to);
[[nodiscard]] std::chrono::nanoseconds seconds_of(std::int64_t seconds);
// Rounded down; exact for all totals.
[[nodiscard]] std::int64_t percent_of(std::int64_t total, std::int64_t percent);

// oomd's sum, by which it finds the cgroup under the highest pressure.
[[nodiscard]] float weighted(const PressureLine& line);
// Nothing: a percentage of an unknown total.
[[nodiscard]] std::optional<std::int64_t> bytes_of(const SizeOrPercent& size,
                                                   std::optional<std::int64_t> total);

// What a plugin runs for.
struct PluginRun {
  const Plugin* plugin = nullptr;
  PluginState* state = nullptr;
  std::string_view ruleset;
  const ChainRun* chain = nullptr;  // null: among the detectors, before a group fired
  ActionRun* report = nullptr;
  // Set by an action that returned stop: seconds of the pause in place of the ruleset's.
  std::optional<std::int64_t> pause;
  std::int64_t extra_pause = 0;  // seconds in addition
};

class RuleEvaluation {
 public:
  RuleEvaluation(const RuleConfig& config, RuleState& state, const RuleObservation& observed,
                 const std::vector<EffectAnswer>& answers)
      : config_(config), state_(state), observed_(observed), answers_(answers) {}

  void run();
  [[nodiscard]] RuleDecision& decision() { return decision_; }
  [[nodiscard]] std::optional<WantedEffect>& wanted() { return wanted_; }

 private:
  enum class KillEnd : std::uint8_t { killed, none, deferred, held };

  // engine.cc
  void run_ruleset(const RulesetInstance& instance);
  std::optional<ChainRun> evaluate_groups(const Ruleset& ruleset, RulesetState& state,
                                          RulesetRun& run);
  void run_chain(const Ruleset& ruleset, RulesetState& state, std::size_t first, ChainRun chain,
                 RulesetRun& run);
  PluginResult run_plugin(PluginRun& run);
  // The answer to an effect; nothing if the caller has to act first: return at once.
  std::optional<EffectAnswer> answer(WantedEffect effect);

  // history.cc
  void update_histories(const std::vector<RulesetInstance>& order);
  void cover(const Cgroup& cgroup, bool recursive, std::map<std::uint64_t, const Cgroup*>& all);
  // Of a cgroup covered at this evaluation; nothing if a reading is missing.
  [[nodiscard]] std::optional<double> growth(const Cgroup& cgroup) const;
  [[nodiscard]] std::optional<double> io_cost(const Cgroup& cgroup) const;

  // detectors.cc
  PluginResult detect(const PressureAbove& arguments, PluginState& state);
  PluginResult detect(const MemoryAbove& arguments, PluginState& state);
  PluginResult detect(const MemoryReclaim& arguments, PluginState& state);
  [[nodiscard]] PluginResult detect(const SwapFree& arguments) const;
  [[nodiscard]] PluginResult detect(const Exists& arguments) const;
  [[nodiscard]] PluginResult detect(const DyingDescendants& arguments) const;
  // own_detectors.cc
  PluginResult detect(const PressureOver& arguments, PluginState& state);
  PluginResult detect(const AvailableBelow& arguments, PluginState& state);
  PluginResult detect(const RateAbove& arguments, PluginState& state);

  // detectors.cc
  // Whether `met` has held for the duration.
  bool held(bool met, std::int64_t duration, PluginState& state) const;
  // Full pressure of the cgroup under the highest pressure.
  [[nodiscard]] PressureLine worst_pressure(const CgroupPatterns& cgroups,
                                            PressureResource resource) const;

  // ranking.cc
  std::vector<const Cgroup*> rank(const Kill& arguments, const PluginState& state,
                                  const std::vector<const Cgroup*>& cgroups,
                                  std::vector<RankedCgroup>& report) const;

  // kills.cc
  PluginResult kill(const Kill& arguments, PluginRun& run);
  KillEnd resume_kill(const Kill& arguments, PluginRun& run);
  // `stack` ends with the best candidate.
  KillEnd try_candidates(const Kill& arguments, PluginRun& run, std::vector<const Cgroup*> stack);
  [[nodiscard]] bool hooks_in_time(const PluginRun& run) const;
  // Whether the kill of the victim now waits for a hook.
  bool waits_for_hook(PluginRun& run, const Cgroup& victim,
                      const std::vector<const Cgroup*>& stack);
  KillEnd kill_cgroup(const Kill& arguments, PluginRun& run, const Cgroup& victim);
  void collect_pgscan(const Kill& arguments, PluginState& state);
  PluginResult restart(const RestartUnit& arguments, PluginRun& run);

  // settings.cc
  PluginResult reclaim(const ReclaimMemory& arguments, PluginRun& run);
  PluginResult throttle(const Throttle& arguments, PluginRun& run);
  PluginResult freeze(const Freeze& arguments, PluginRun& run);
  static bool extends_held(const Cgroup& cgroup, std::chrono::nanoseconds until, PluginRun& run);
  void hold(const Cgroup& cgroup, std::string_view file, HeldSetting setting, bool dry,
            PluginRun& run);
  PluginResult log(const LogAction& arguments, const PluginRun& run);
  // Ends what throttles and freezes of the ruleset held until now.
  void end_held(const Ruleset& ruleset, RulesetState& state);
  void write(const Cgroup& cgroup, std::string_view file, std::int64_t value);

  // senpai.cc
  PluginResult senpai(const Senpai& arguments, PluginState& state);

  const RuleConfig& config_;
  RuleState& state_;
  const RuleObservation& observed_;
  const std::vector<EffectAnswer>& answers_;
  std::size_t answered_ = 0;
  std::vector<PrekillHook> hooks_;
  std::map<std::uint64_t, double> io_rate_;  // since the last evaluation
  RuleDecision decision_;
  std::optional<WantedEffect> wanted_;
};

}  // namespace forestall::rulesets
