// SPDX-License-Identifier: Apache-2.0
#include "rulesets/engine.h"

#include <utility>

#include "rulesets/evaluation.h"

namespace forestall::rulesets {

std::int64_t seconds_between(std::chrono::nanoseconds from, std::chrono::nanoseconds to) {
  return std::chrono::duration_cast<std::chrono::seconds>(to - from).count();
}

std::chrono::nanoseconds seconds_of(std::int64_t seconds) {
  return std::chrono::seconds(seconds);
}

std::int64_t percent_of(std::int64_t total, std::int64_t percent) {
  return static_cast<std::int64_t>(static_cast<__int128>(total) * percent / 100);
}

RuleStep step(const RuleConfig& config, const RuleState& state, const RuleObservation& observed,
              const std::vector<EffectAnswer>& answers) {
  RuleStep result;
  result.state = state;
  RuleEvaluation evaluation(config, result.state, observed, answers);
  evaluation.run();
  result.decision = std::move(evaluation.decision());
  result.wanted = std::move(evaluation.wanted());
  return result;
}

void RuleEvaluation::run() {
  decision_.time = observed_.time;
  ++state_.evaluations;
  hooks_ = config_.program.hooks();
  const std::vector<RulesetInstance> order = config_.program.order();
  // A disabled ruleset keeps its state; that of a removed drop-in is dropped.
  std::map<std::uint64_t, RulesetState> kept;
  const auto keep = [&](const RulesetInstance& each) {
    if (auto known = state_.rulesets.find(each.id); known != state_.rulesets.end()) {
      kept.insert(std::move(*known));
      state_.rulesets.erase(known);
    }
  };
  for (const RulesetInstance& each : config_.program.base()) keep(each);
  for (const RulesetInstance& each : order) keep(each);
  state_.rulesets = std::move(kept);
  update_histories(order);
  for (const RulesetInstance& each : order) {
    run_ruleset(each);
    if (wanted_) return;
  }
}

void RuleEvaluation::run_ruleset(const RulesetInstance& instance) {
  const Ruleset& ruleset = *instance.ruleset;
  RulesetState& state = state_.rulesets[instance.id];
  state.groups.resize(ruleset.groups.size());
  state.actions.resize(ruleset.actions.size());
  RulesetRun run;
  run.name = ruleset.name;
  run.drop_in = instance.drop_in;
  end_held(ruleset, state);
  std::optional<ChainRun> chain = evaluate_groups(ruleset, state, run);
  if (wanted_) return;
  run.paused = state.pause_until && observed_.time < *state.pause_until;
  if (!run.paused && state.suspended_at) {
    const std::size_t action = *state.suspended_at;
    state.suspended_at.reset();
    run.resumed = true;
    run_chain(ruleset, state, action, state.run, run);
  } else if (!run.paused && chain) {
    run_chain(ruleset, state, 0, std::move(*chain), run);
  }
  if (run.group || run.resumed || !run.detectors.empty()) {
    decision_.rulesets.push_back(std::move(run));
  }
}

// All plugins of all groups are evaluated, so that windows of time stay current. The first group
// that fires begins a run; a kill that stands in a later group belongs to it.
std::optional<ChainRun> RuleEvaluation::evaluate_groups(const Ruleset& ruleset, RulesetState& state,
                                                        RulesetRun& run) {
  std::optional<ChainRun> chain;
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
      if (wanted_) return std::nullopt;
      fires = fires && report.result != PluginResult::stop;
      if (std::holds_alternative<Kill>(plugin.arguments))
        run.detectors.push_back(std::move(report));
    }
    if (!fires || chain) continue;
    run.group = group.name;
    chain = ChainRun{group.name, std::nullopt};
    if (ruleset.prekill_hook_timeout > 0) {
      chain->hook_deadline = observed_.time + seconds_of(ruleset.prekill_hook_timeout);
    }
  }
  return chain;
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
    plugin_run.report = &report;
    report.result = run_plugin(plugin_run);
    if (wanted_) return;
    if (report.result == PluginResult::suspended) {
      state.suspended_at = a;
      state.run = std::move(chain);
      return;
    }
    if (report.result == PluginResult::stop) {
      const std::int64_t pause =
          plugin_run.pause.value_or(ruleset.post_action_delay) + plugin_run.extra_pause;
      state.pause_until = observed_.time + seconds_of(pause);
      return;
    }
  }
}

PluginResult RuleEvaluation::run_plugin(PluginRun& run) {
  const PluginArguments& arguments = run.plugin->arguments;
  PluginState& state = *run.state;
  if (const auto* each = std::get_if<PressureAbove>(&arguments)) return detect(*each, state);
  if (const auto* each = std::get_if<MemoryAbove>(&arguments)) return detect(*each, state);
  if (const auto* each = std::get_if<MemoryReclaim>(&arguments)) return detect(*each, state);
  if (const auto* each = std::get_if<SwapFree>(&arguments)) return detect(*each);
  if (const auto* each = std::get_if<Exists>(&arguments)) return detect(*each);
  if (const auto* each = std::get_if<DyingDescendants>(&arguments)) return detect(*each);
  if (const auto* each = std::get_if<Kill>(&arguments)) return kill(*each, run);
  if (const auto* each = std::get_if<RestartUnit>(&arguments)) return restart(*each, run);
  if (const auto* each = std::get_if<Senpai>(&arguments)) return senpai(*each, state);
  if (const auto* each = std::get_if<PressureOver>(&arguments)) return detect(*each, state);
  if (const auto* each = std::get_if<AvailableBelow>(&arguments)) return detect(*each, state);
  if (const auto* each = std::get_if<RateAbove>(&arguments)) return detect(*each, state);
  if (const auto* each = std::get_if<ReclaimMemory>(&arguments)) return reclaim(*each, run);
  if (const auto* each = std::get_if<Throttle>(&arguments)) return throttle(*each, run);
  if (const auto* each = std::get_if<Freeze>(&arguments)) return freeze(*each, run);
  if (const auto* each = std::get_if<LogAction>(&arguments)) return log(*each, run);
  const auto* always = std::get_if<Always>(&arguments);
  return always != nullptr && !always->proceed ? PluginResult::stop : PluginResult::proceed;
}

std::optional<EffectAnswer> RuleEvaluation::answer(WantedEffect effect) {
  if (answered_ < answers_.size()) return answers_[answered_++];
  wanted_ = std::move(effect);
  return std::nullopt;
}

}  // namespace forestall::rulesets
