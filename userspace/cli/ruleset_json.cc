// SPDX-License-Identifier: Apache-2.0
#include "cli/ruleset_json.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "model/rule_observation.h"

namespace forestall::cli {
namespace {

using text::JsonOutput;

JsonOutput patterns_json(const rulesets::CgroupPatterns& patterns) {
  JsonOutput list = JsonOutput::list();
  for (const rulesets::CgroupPattern& each : patterns) list.add(pattern_text(each));
  return list;
}

JsonOutput size_json(const rulesets::SizeOrPercent& size) {
  if (size.is_percent) return size_text(size);
  return size.value;
}

std::string_view resource_word(rulesets::PressureResource resource) {
  switch (resource) {
    case rulesets::PressureResource::memory: break;
    case rulesets::PressureResource::io: return "io";
    case rulesets::PressureResource::cpu: return "cpu";
  }
  return "memory";
}

// As many digits as the float has, not those of its value as a double.
double shortest(float number) {
  return std::stod(fmt::format("{}", number));
}

JsonOutput with_cgroups(const rulesets::CgroupPatterns& patterns) {
  JsonOutput out = JsonOutput::object();
  out.set("cgroup", patterns_json(patterns));
  return out;
}

struct ArgumentsWriter {
  JsonOutput operator()(const rulesets::Always& /*unused*/) const { return JsonOutput::object(); }

  JsonOutput operator()(const rulesets::PressureAbove& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("resource", resource_word(each.resource)).set("threshold", each.threshold);
    out.set("duration", each.duration);
    if (each.fast_fall_ratio) out.set("fast_fall_ratio", shortest(*each.fast_fall_ratio));
    return out;
  }

  JsonOutput operator()(const rulesets::MemoryAbove& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set(each.anon ? "threshold_anon" : "threshold", size_json(each.threshold));
    out.set("duration", each.duration).set("debug", each.debug);
    if (each.swap) out.set("of", "swap");
    return out;
  }

  JsonOutput operator()(const rulesets::MemoryReclaim& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("duration", each.duration);
    return out;
  }

  JsonOutput operator()(const rulesets::SwapFree& each) const {
    JsonOutput out = JsonOutput::object();
    out.set("threshold_pct", each.percent);
    return out;
  }

  JsonOutput operator()(const rulesets::Exists& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("negate", each.negate).set("debug", each.debug);
    return out;
  }

  JsonOutput operator()(const rulesets::DyingDescendants& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("count", each.count).set("lte", each.at_most).set("debug", each.debug);
    return out;
  }

  JsonOutput operator()(const rulesets::CgroupOverview& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("always", each.always);
    return out;
  }

  JsonOutput operator()(const rulesets::Kill& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("recursive", each.recursive);
    if (each.post_action_delay) out.set("post_action_delay", *each.post_action_delay);
    out.set("dry", each.dry).set("always_continue", each.always_continue);
    out.set("debug", each.debug);
    if (each.by == rulesets::KillBy::memory_size_or_growth) {
      out.set("size_threshold", each.size_threshold);
      out.set("growing_size_percentile", each.growing_size_percentile);
      out.set("min_growth_ratio", each.min_growth_ratio);
    } else if (each.by == rulesets::KillBy::swap_usage) {
      out.set("threshold", size_json(each.swap_threshold));
    } else if (each.by == rulesets::KillBy::pressure) {
      out.set("resource", resource_word(each.resource));
    }
    return out;
  }

  JsonOutput operator()(const rulesets::RestartUnit& each) const {
    JsonOutput out = JsonOutput::object();
    out.set("service", each.service).set("post_action_delay", each.post_action_delay);
    out.set("dry", each.dry);
    return out;
  }

  JsonOutput operator()(const rulesets::ProactiveReclaim& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("pressure", each.pressure).set("every", each.every).set("step", each.step);
    out.set("writeMax", each.write_max).set("floor", each.floor).set("backOff", each.back_off);
    out.set("nodePressure", each.node_pressure).set("swapUsedMax", each.swap_used_max);
    out.set("dry", each.dry);
    return out;
  }

  JsonOutput operator()(const rulesets::Senpai& each) const {
    JsonOutput out = with_cgroups(each.cgroups);
    out.set("limit_min_bytes", each.limit_min_bytes).set("limit_max_bytes", each.limit_max_bytes);
    out.set("interval", each.interval).set("pressure_ms", each.pressure_ms);
    out.set("pressure_pct", each.pressure_pct).set("io_pressure_pct", each.io_pressure_pct);
    out.set("max_probe", each.max_probe).set("max_backoff", each.max_backoff);
    out.set("coeff_probe", each.coeff_probe).set("coeff_backoff", each.coeff_backoff);
    out.set("immediate_backoff", each.immediate_backoff);
    out.set("memory_high_timeout_ms", each.memory_high_timeout_ms);
    out.set("swap_threshold", each.swap_threshold);
    out.set("swapout_bps_threshold", each.swapout_bps_threshold);
    out.set("swap_validation", each.swap_validation);
    out.set("modulate_swappiness", each.modulate_swappiness);
    out.set("log_interval", each.log_interval);
    return out;
  }

  // Rulesets of Forestall's configuration are printed as they were written.
  template <typename Own>
  JsonOutput operator()(const Own& /*unused*/) const {
    return JsonOutput::object();
  }
};

JsonOutput plugin_json(const rulesets::Plugin& plugin) {
  JsonOutput out = JsonOutput::object();
  out.set("name", plugin.name).set("args", arguments_json(plugin.arguments));
  return out;
}

JsonOutput ranking_json(const std::vector<rulesets::RankedCgroup>& ranking, const ShowPath& shown) {
  JsonOutput list = JsonOutput::list();
  for (const rulesets::RankedCgroup& each : ranking) {
    JsonOutput out = JsonOutput::object();
    out.set("cgroup", shown(each.cgroup)).set("preference", to_string(each.preference));
    for (const auto& [name, value] : each.key) {
      const std::string key(name);
      std::visit([&out, &key](auto number) { out.set(key, number); }, value);
    }
    if (each.key.empty()) out.set("unknown", true);
    list.add(std::move(out));
  }
  return list;
}

JsonOutput action_json(const rulesets::ActionRun& action, const ShowPath& shown) {
  JsonOutput out = JsonOutput::object();
  out.set("name", action.name).set("result", to_string(action.result));
  out.set("ranking", ranking_json(action.ranking, shown));
  if (!action.descents.empty()) {
    JsonOutput descents = JsonOutput::list();
    for (const rulesets::DescentRanking& each : action.descents) {
      JsonOutput descent = JsonOutput::object();
      descent.set("cgroup", shown(each.cgroup)).set("ranking", ranking_json(each.ranking, shown));
      descents.add(std::move(descent));
    }
    out.set("descents", std::move(descents));
  }
  JsonOutput attempts = JsonOutput::list();
  for (const rulesets::KillAttempt& each : action.attempts) {
    JsonOutput attempt = JsonOutput::object();
    attempt.set("cgroup", shown(each.cgroup)).set("outcome", to_string(each.outcome));
    attempts.add(std::move(attempt));
  }
  out.set("attempts", std::move(attempts));
  return out;
}

JsonOutput actions_json(const std::vector<rulesets::ActionRun>& actions, const ShowPath& shown) {
  JsonOutput list = JsonOutput::list();
  for (const rulesets::ActionRun& each : actions) list.add(action_json(each, shown));
  return list;
}

JsonOutput run_json(const rulesets::RulesetRun& run, const ShowPath& shown) {
  JsonOutput out = JsonOutput::object();
  out.set("name", run.name);
  if (!run.drop_in.empty()) out.set("dropIn", run.drop_in);
  out.set("group", run.group ? JsonOutput(*run.group) : JsonOutput());
  out.set("resumed", run.resumed).set("paused", run.paused);
  if (!run.detectors.empty()) out.set("detectors", actions_json(run.detectors, shown));
  out.set("actions", actions_json(run.actions, shown));
  return out;
}

JsonOutput write_json(const rulesets::RuleWrite& write, const ShowPath& shown) {
  JsonOutput out = JsonOutput::object();
  const std::string separator = write.cgroup.ends_with('/') ? "" : "/";
  out.set("file", write.cgroup.empty() ? write.file : shown(write.cgroup) + separator + write.file);
  out.set("value", write.value == rulesets::kNoLimit ? JsonOutput("max") : JsonOutput(write.value));
  if (write.timeout_us) out.set("timeoutUs", *write.timeout_us);
  return out;
}

// Whole seconds as a whole number.
JsonOutput seconds_json(std::chrono::nanoseconds time) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (time.count() % kSecond == 0) return time.count() / kSecond;
  return static_cast<double>(time.count()) / static_cast<double>(kSecond);
}

}  // namespace

std::string pattern_text(const rulesets::CgroupPattern& pattern) {
  std::string text;
  for (const std::string& each : pattern.components) text += "/" + each;
  return text.empty() ? "/" : text;
}

std::string size_text(const rulesets::SizeOrPercent& size) {
  return fmt::format("{}{}", size.value, size.is_percent ? "%" : "");
}

JsonOutput arguments_json(const rulesets::PluginArguments& arguments) {
  return std::visit(ArgumentsWriter(), arguments);
}

JsonOutput ruleset_json(const rulesets::Ruleset& ruleset) {
  JsonOutput out = JsonOutput::object();
  JsonOutput silenced = JsonOutput::list();
  if (ruleset.silence_engine) silenced.add("engine");
  if (ruleset.silence_plugins) silenced.add("plugins");
  out.set("name", ruleset.name).set("silenceLogs", std::move(silenced));
  out.set("postActionDelaySeconds", ruleset.post_action_delay);
  out.set("prekillHookTimeoutSeconds", ruleset.prekill_hook_timeout);
  JsonOutput drop_in = JsonOutput::object();
  drop_in.set("detectors", ruleset.drop_in_detectors).set("actions", ruleset.drop_in_actions);
  drop_in.set("disable-on-drop-in", ruleset.disable_on_drop_in);
  out.set("dropIn", std::move(drop_in));
  JsonOutput groups = JsonOutput::list();
  for (const rulesets::DetectorGroup& each : ruleset.groups) {
    JsonOutput plugins = JsonOutput::list();
    for (const rulesets::Plugin& plugin : each.plugins) plugins.add(plugin_json(plugin));
    JsonOutput group = JsonOutput::object();
    group.set("group", each.name).set("plugins", std::move(plugins));
    groups.add(std::move(group));
  }
  out.set("groups", std::move(groups));
  JsonOutput actions = JsonOutput::list();
  for (const rulesets::Plugin& plugin : ruleset.actions) actions.add(plugin_json(plugin));
  out.set("actions", std::move(actions));
  return out;
}

JsonOutput hook_json(const rulesets::PrekillHook& hook) {
  JsonOutput out = JsonOutput::object();
  out.set("name", hook.name).set("args", with_cgroups(hook.cgroups));
  return out;
}

JsonOutput decision_json(const rulesets::RuleDecision& decision, const ShowPath& shown) {
  JsonOutput out = JsonOutput::object();
  out.set("time", seconds_json(decision.time));
  JsonOutput rulesets = JsonOutput::list();
  for (const rulesets::RulesetRun& each : decision.rulesets) rulesets.add(run_json(each, shown));
  out.set("rulesets", std::move(rulesets));
  JsonOutput writes = JsonOutput::list();
  for (const rulesets::RuleWrite& each : decision.writes) writes.add(write_json(each, shown));
  out.set("writes", std::move(writes));
  JsonOutput kills = JsonOutput::list();
  for (const rulesets::RuleKill& each : decision.kills) {
    JsonOutput kill = JsonOutput::object();
    kill.set("cgroup", shown(each.cgroup)).set("reason", each.reason);
    kill.set("ruleset", each.ruleset).set("group", each.group).set("dry", each.dry);
    kills.add(std::move(kill));
  }
  out.set("kills", std::move(kills));
  if (!decision.messages.empty()) {
    JsonOutput messages = JsonOutput::list();
    for (const rulesets::RuleMessage& each : decision.messages) {
      JsonOutput message = JsonOutput::object();
      message.set("ruleset", each.ruleset).set("group", each.group).set("text", each.text);
      messages.add(std::move(message));
    }
    out.set("messages", std::move(messages));
  }
  if (!decision.restarts.empty()) {
    JsonOutput restarts = JsonOutput::list();
    for (const rulesets::UnitRestart& each : decision.restarts) {
      JsonOutput restart = JsonOutput::object();
      restart.set("service", each.service).set("dry", each.dry);
      restarts.add(std::move(restart));
    }
    out.set("restarts", std::move(restarts));
  }
  return out;
}

}  // namespace forestall::cli
