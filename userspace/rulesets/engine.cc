// SPDX-License-Identifier: Apache-2.0
#include "rulesets/engine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "rulesets/detectors.h"
#include "rulesets/kill_actions.h"
#include "rulesets/own_detectors.h"
#include "rulesets/plugin_run.h"
#include "rulesets/proactive_reclaim.h"
#include "rulesets/rule_amounts.h"
#include "rulesets/senpai.h"
#include "rulesets/setting_actions.h"
#include "rulesets/usage_history.h"

namespace forestall::rulesets {

namespace {

bool shares_pause(const Ruleset& ruleset) {
  return std::ranges::any_of(ruleset.actions, [](const Plugin& each) {
    const auto* kill = std::get_if<Kill>(&each.arguments);
    return kill != nullptr && kill->preference == PreferenceSource::systemd &&
           kill->by == KillBy::pg_scan;
  });
}

class RuleEvaluation {
 public:
  explicit RuleEvaluation(RuleScope& scope)
      : scope_(scope), history_(scope), kills_(scope, history_), settings_(scope) {}

  void run();

 private:
  void run_ruleset(const RulesetInstance& instance);
  std::optional<ChainRun> evaluate_groups(const Ruleset& ruleset, RulesetState& state,
                                          RulesetRun& run);
  std::optional<std::size_t> failed_restart(const Ruleset& ruleset, RulesetState& state,
                                            RulesetRun& run);
  void run_chain(const Ruleset& ruleset, RulesetState& state, std::size_t first, ChainRun chain,
                 RulesetRun& run);
  PluginResult run_plugin(PluginRun& run);
  void share_pause(const Ruleset& ruleset, std::chrono::nanoseconds until);
  [[nodiscard]] bool waits() const { return scope_.effects.wanted().has_value(); }

  RuleScope& scope_;
  UsageHistory history_;
  KillActions kills_;
  SettingActions settings_;
};

void RuleEvaluation::run() {
  scope_.decision.time = scope_.observed.time;
  ++scope_.state.evaluations;
  const std::vector<RulesetInstance> order = scope_.config.program.order();
  // A disabled ruleset keeps its state; that of a removed drop-in is dropped.
  std::map<std::uint64_t, RulesetState> kept;
  const auto keep = [&](const RulesetInstance& each) {
    if (auto known = scope_.state.rulesets.find(each.id); known != scope_.state.rulesets.end()) {
      kept.insert(std::move(*known));
      scope_.state.rulesets.erase(known);
    }
  };
  for (const RulesetInstance& each : scope_.config.program.base()) keep(each);
  for (const RulesetInstance& each : order) keep(each);
  scope_.state.rulesets = std::move(kept);
  scope_.last_write = last_proactive_write(scope_);
  history_.update(order);
  for (const RulesetInstance& each : order) {
    run_ruleset(each);
    if (waits()) return;
  }
}

void RuleEvaluation::run_ruleset(const RulesetInstance& instance) {
  const Ruleset& ruleset = *instance.ruleset;
  RulesetState& state = scope_.state.rulesets[instance.id];
  state.groups.resize(ruleset.groups.size());
  state.actions.resize(ruleset.actions.size());
  RulesetRun run;
  run.name = ruleset.name;
  run.drop_in = instance.drop_in;
  settings_.end_held(ruleset, state);
  std::optional<ChainRun> chain = evaluate_groups(ruleset, state, run);
  if (waits()) return;
  run.paused = state.pause_until && scope_.observed.time < *state.pause_until;
  const auto failed = failed_restart(ruleset, state, run);
  if (waits()) return;
  if (failed) {
    run.resumed = true;
    run.actions.back().result = chain ? PluginResult::proceed : PluginResult::stop;
    if (chain) run_chain(ruleset, state, *failed + 1, std::move(*chain), run);
  } else if (!run.paused && state.suspended_at) {
    const std::size_t action = *state.suspended_at;
    state.suspended_at.reset();
    run.resumed = true;
    run_chain(ruleset, state, action, state.run, run);
  } else if (!run.paused && chain) {
    run_chain(ruleset, state, 0, std::move(*chain), run);
  }
  if (run.group || run.resumed || !run.detectors.empty()) {
    scope_.decision.rulesets.push_back(std::move(run));
  }
}

// All plugins of all groups are evaluated, so that windows of time stay current, and none of a
// deferred ruleset, whose windows are shorter than the time until it can fire. The first group
// that fires begins a run; a kill that stands in a later group belongs to it.
std::optional<ChainRun> RuleEvaluation::evaluate_groups(const Ruleset& ruleset, RulesetState& state,
                                                        RulesetRun& run) {
  std::optional<ChainRun> chain;
  if (scope_.observed.is_deferred(ruleset.name)) {
    for (auto& group : state.groups) group.clear();
    return chain;
  }
  for (std::size_t g = 0; g < ruleset.groups.size(); ++g) {
    const DetectorGroup& group = ruleset.groups[g];
    state.groups[g].resize(group.plugins.size());
    bool fires = true;
    for (std::size_t p = 0; p < group.plugins.size(); ++p) {
      const Plugin& plugin = group.plugins[p];
      ActionRun report;
      report.name = plugin.name;
      PluginRun plugin_run;
      plugin_run.plugin = &plugin;
      plugin_run.state = &state.groups[g][p];
      plugin_run.ruleset = ruleset.name;
      plugin_run.chain = chain ? &*chain : nullptr;
      plugin_run.report = &report;
      report.result = run_plugin(plugin_run);
      if (waits()) return std::nullopt;
      fires = fires && report.result != PluginResult::stop;
      if (std::holds_alternative<Kill>(plugin.arguments))
        run.detectors.push_back(std::move(report));
    }
    if (!fires || chain) continue;
    run.group = group.name;
    chain = ChainRun{group.name, std::nullopt};
    if (ruleset.prekill_hook_timeout > 0) {
      chain->hook_deadline = scope_.observed.time + seconds_of(ruleset.prekill_hook_timeout);
    }
  }
  return chain;
}

// The action whose restart failed. It ended the chain when it was begun; the chain continues only
// if a group still fires, because a restart may take long enough for the pressure to be over. One
// that is under way keeps the ruleset paused.
std::optional<std::size_t> RuleEvaluation::failed_restart(const Ruleset& ruleset,
                                                          RulesetState& state, RulesetRun& run) {
  for (std::size_t a = 0; a < ruleset.actions.size(); ++a) {
    const auto* restart = std::get_if<RestartUnit>(&ruleset.actions[a].arguments);
    std::optional<std::chrono::nanoseconds>& since = state.actions[a].since;
    if (restart == nullptr || !since) continue;
    WantedEffect poll{WantedEffect::Kind::poll_restart, restart->service, {}, 0, *since};
    poll.until = std::max(state.pause_until.value_or(*since), *since + kRestartWait);
    const auto answer = scope_.effects.answer(std::move(poll));
    if (!answer) return std::nullopt;
    if (*answer == EffectAnswer::begun) {
      run.paused = true;
      return std::nullopt;
    }
    since.reset();
    if (*answer == EffectAnswer::yes) return std::nullopt;
    state.pause_until.reset();
    run.paused = false;
    ActionRun& report = run.actions.emplace_back();
    report.name = ruleset.actions[a].name;
    report.restart = UnitRestart{restart->service, false};
    return a;
  }
  return std::nullopt;
}

void RuleEvaluation::run_chain(const Ruleset& ruleset, RulesetState& state, std::size_t first,
                               ChainRun chain, RulesetRun& run) {
  for (std::size_t a = first; a < ruleset.actions.size(); ++a) {
    ActionRun& report = run.actions.emplace_back();
    report.name = ruleset.actions[a].name;
    PluginRun plugin_run;
    plugin_run.plugin = &ruleset.actions[a];
    plugin_run.state = &state.actions[a];
    plugin_run.ruleset = ruleset.name;
    plugin_run.chain = &chain;
    plugin_run.ruleset_pause = ruleset.post_action_delay;
    plugin_run.fires = run.group.has_value();
    plugin_run.report = &report;
    report.result = run_plugin(plugin_run);
    if (waits()) return;
    if (report.result == PluginResult::suspended) {
      state.suspended_at = a;
      state.run = std::move(chain);
      return;
    }
    if (report.result == PluginResult::stop) {
      const std::int64_t pause =
          plugin_run.pause.value_or(ruleset.post_action_delay) + plugin_run.extra_pause;
      state.pause_until = scope_.observed.time + seconds_of(pause);
      if (pause > 0 && shares_pause(ruleset)) share_pause(ruleset, *state.pause_until);
      return;
    }
  }
}

// systemd-oomd has one pause for all cgroups whose pressure it watches.
void RuleEvaluation::share_pause(const Ruleset& ruleset, std::chrono::nanoseconds until) {
  for (const RulesetInstance& each : scope_.config.program.order()) {
    if (&*each.ruleset == &ruleset || !shares_pause(*each.ruleset)) continue;
    auto& other = scope_.state.rulesets[each.id].pause_until;
    other = std::max(other.value_or(until), until);
  }
}

PluginResult RuleEvaluation::run_plugin(PluginRun& run) {
  const PluginArguments& arguments = run.plugin->arguments;
  const RuleObservation& observed = scope_.observed;
  PluginState& state = *run.state;
  if (const auto* each = std::get_if<PressureAbove>(&arguments))
    return detect(*each, observed, state);
  if (const auto* each = std::get_if<MemoryAbove>(&arguments))
    return detect(*each, observed, state);
  if (const auto* each = std::get_if<MemoryReclaim>(&arguments))
    return detect(*each, observed, state);
  if (const auto* each = std::get_if<SwapFree>(&arguments)) return detect(*each, observed);
  if (const auto* each = std::get_if<Exists>(&arguments)) return detect(*each, observed);
  if (const auto* each = std::get_if<DyingDescendants>(&arguments)) return detect(*each, observed);
  if (const auto* each = std::get_if<Kill>(&arguments)) return kills_.run(*each, run);
  if (const auto* each = std::get_if<RestartUnit>(&arguments)) return kills_.run(*each, run);
  if (const auto* each = std::get_if<Senpai>(&arguments)) {
    return senpai(*each, observed, state, scope_.decision.writes);
  }
  if (const auto* each = std::get_if<PressureOver>(&arguments))
    return detect(*each, observed, state);
  if (const auto* each = std::get_if<AvailableBelow>(&arguments))
    return detect(*each, observed, state);
  if (const auto* each = std::get_if<RateAbove>(&arguments)) return detect(*each, observed, state);
  if (const auto* each = std::get_if<ReclaimMemory>(&arguments)) return settings_.run(*each, run);
  if (const auto* each = std::get_if<ProactiveReclaim>(&arguments)) {
    return proactive_reclaim(*each, scope_, run);
  }
  if (const auto* each = std::get_if<Throttle>(&arguments)) return settings_.run(*each, run);
  if (const auto* each = std::get_if<Freeze>(&arguments)) return settings_.run(*each, run);
  if (const auto* each = std::get_if<LogAction>(&arguments)) return settings_.run(*each, run);
  const auto* always = std::get_if<Always>(&arguments);
  return always != nullptr && !always->proceed ? PluginResult::stop : PluginResult::proceed;
}

}  // namespace

RuleStep step(const RuleConfig& config, const RuleState& state, const RuleObservation& observed,
              const std::vector<EffectAnswer>& answers) {
  RuleStep result;
  result.state = state;
  EffectAnswers effects(answers);
  RuleScope scope{.config = config,
                  .observed = observed,
                  .state = result.state,
                  .decision = result.decision,
                  .effects = effects};
  RuleEvaluation(scope).run();
  result.wanted = effects.wanted();
  return result;
}

}  // namespace forestall::rulesets
