// SPDX-License-Identifier: Apache-2.0
#include "cli/ruleset_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/printable.h"
#include "model/rule_observation.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

std::string cgroups_text(const rulesets::CgroupPatterns& patterns) {
  std::string text;
  for (const rulesets::CgroupPattern& each : patterns) {
    text += (text.empty() ? "" : ", ") + pattern_text(each);
  }
  return text.empty() ? "no cgroup" : text;
}

std::string amount_text(const rulesets::SizeOrPercent& size, std::string_view total) {
  if (size.is_percent) return fmt::format("{} % of {}", size.value, total);
  return tables::human(Bytes{size.value});
}

std::string_view resource_name(rulesets::PressureResource resource) {
  switch (resource) {
    case rulesets::PressureResource::memory: break;
    case rulesets::PressureResource::io: return "I/O";
    case rulesets::PressureResource::cpu: return "CPU";
  }
  return "memory";
}

std::string measure_text(const rulesets::PressureOver& each) {
  using Average = rulesets::PressureOver::Average;
  switch (each.measure) {
    case Average::avg10: break;
    case Average::avg60: return "avg60";
    case Average::avg300: return "avg300";
    case Average::window: return fmt::format("exact, over {} s", each.window);
  }
  return "avg10";
}

std::string for_text(std::int64_t duration) {
  return duration == 0 ? std::string() : fmt::format(" for {} s", duration);
}

std::string dry_text(bool dry) {
  return dry ? "; dry run" : "";
}

struct PluginWords {
  std::string operator()(const rulesets::Always& each) const {
    return each.proceed ? "continue with the chain" : "stop the chain";
  }

  std::string operator()(const rulesets::PressureAbove& each) const {
    const std::string_view resource = resource_name(each.resource);
    if (!each.fast_fall_ratio) {
      return fmt::format("full {} pressure (avg10) of any of {} is above {} % for {} s", resource,
                         cgroups_text(each.cgroups), each.threshold, each.duration);
    }
    return fmt::format(
        "full {} pressure of any of {} is above {} %: avg60 for {} s, and avg10, which has not "
        "fallen below {} of its last value",
        resource, cgroups_text(each.cgroups), each.threshold, each.duration, *each.fast_fall_ratio);
  }

  std::string operator()(const rulesets::MemoryAbove& each) const {
    return fmt::format("{} of any of {} is above {} for {} s",
                       each.swap ? "swap" : (each.anon ? "anonymous memory" : "memory"),
                       cgroups_text(each.cgroups),
                       amount_text(each.threshold, each.swap ? "all swap" : "MemTotal"),
                       each.duration);
  }

  std::string operator()(const rulesets::MemoryReclaim& each) const {
    return fmt::format("pages of {} were scanned for reclaim within {} s",
                       cgroups_text(each.cgroups), each.duration);
  }

  std::string operator()(const rulesets::SwapFree& each) const {
    return fmt::format("free swap is below {} %", each.percent);
  }

  std::string operator()(const rulesets::Exists& each) const {
    return fmt::format("{} of {} exists", each.negate ? "none" : "any", cgroups_text(each.cgroups));
  }

  std::string operator()(const rulesets::DyingDescendants& each) const {
    return fmt::format("any of {} has {} {} dying descendants", cgroups_text(each.cgroups),
                       each.at_most ? "at most" : "more than", each.count);
  }

  std::string operator()(const rulesets::CgroupOverview& each) const {
    return fmt::format("always true (oomd logs {} here)", cgroups_text(each.cgroups));
  }

  std::string operator()(const rulesets::Kill& each) const {
    std::string text = fmt::format("kill one of {}{}: {}", cgroups_text(each.cgroups),
                                   each.recursive ? " or of their descendants" : "", key(each));
    if (each.post_action_delay && !each.always_continue) {
      text += fmt::format("; then pause {} s", *each.post_action_delay);
    }
    if (each.always_continue) text += "; continue with the chain in any case";
    if (each.preference == rulesets::PreferenceSource::none) {
      text += "; oomd's extended attributes do not count";
    }
    if (each.preference == rulesets::PreferenceSource::systemd) {
      text += "; ManagedOOMPreference counts as in systemd-oomd";
    }
    if (each.dry) text += "; dry run";
    return text;
  }

  std::string operator()(const rulesets::RestartUnit& each) const {
    return fmt::format("restart the unit {}; then pause {} s more{}", each.service,
                       each.post_action_delay, each.dry ? "; dry run" : "");
  }

  std::string operator()(const rulesets::Senpai& each) const {
    return fmt::format("reclaim from {} while their pressure is low ({})",
                       cgroups_text(each.cgroups),
                       each.immediate_backoff ? "memory.reclaim" : "memory.high");
  }

  std::string operator()(const rulesets::PressureOver& each) const {
    std::string text =
        fmt::format("{} {} pressure ({}) of {} is above {} %{}", each.some ? "some" : "full",
                    resource_name(each.resource), measure_text(each),
                    each.weighted ? fmt::format("the one of {} with the highest weighted pressure",
                                                cgroups_text(each.cgroups))
                                  : "any of " + cgroups_text(each.cgroups),
                    each.threshold, for_text(each.duration));
    if (each.falling_at_most_to) {
      text += fmt::format(", and so is avg10, which has not fallen below {} of its last value",
                          *each.falling_at_most_to);
    }
    return text;
  }

  std::string operator()(const rulesets::AvailableBelow& each) const {
    return fmt::format("{} is below {}{}", each.swap ? "free swap" : "available memory",
                       amount_text(each.threshold, each.swap ? "all swap" : "MemTotal"),
                       for_text(each.duration));
  }

  std::string operator()(const rulesets::RateAbove& each) const {
    using Of = rulesets::RateAbove::Of;
    const std::string amount = each.of == Of::usage
                                   ? tables::human(Bytes{each.threshold}) + " a second"
                                   : fmt::format("{} pages a second", each.threshold);
    constexpr std::string_view kVerbs[] = {"grows by more than", "is scanned by more than",
                                           "reads back more than"};
    return fmt::format("any of {} {} {} over {} s", cgroups_text(each.cgroups),
                       kVerbs[static_cast<std::size_t>(each.of)], amount, each.over);
  }

  std::string operator()(const rulesets::ReclaimMemory& each) const {
    return fmt::format("reclaim {} from each of {}{}", amount_text(each.amount, "its usage"),
                       cgroups_text(each.cgroups), dry_text(each.dry));
  }

  std::string operator()(const rulesets::ProactiveReclaim& each) const {
    return fmt::format(
        "every {} s reclaim up to {} % of the usage, at most {}, from each of {}, down to {}, "
        "while "
        "some of its tasks stall for less than {} % of the time; pause {} s above that, or while "
        "all tasks of the node stall for more than {} %; not with more than {} % of the swap in "
        "use{}",
        each.every, each.step, tables::human(Bytes{each.write_max}), cgroups_text(each.cgroups),
        tables::human(Bytes{each.floor}), each.pressure, each.back_off, each.node_pressure,
        each.swap_used_max, dry_text(each.dry));
  }

  std::string operator()(const rulesets::Throttle& each) const {
    return fmt::format("set memory.high of each of {} to {} for {} s{}", cgroups_text(each.cgroups),
                       amount_text(each.high, "its usage"), each.duration, dry_text(each.dry));
  }

  std::string operator()(const rulesets::Freeze& each) const {
    return fmt::format("freeze each of {} for {} s{}", cgroups_text(each.cgroups), each.duration,
                       dry_text(each.dry));
  }

  std::string operator()(const rulesets::LogAction& each) const {
    return fmt::format("log \"{}\"", each.text);
  }

  static std::string key(const rulesets::Kill& each) {
    switch (each.by) {
      case rulesets::KillBy::memory_size_or_growth:
        return fmt::format(
            "first those that hold {} % of all usage, then those above percentile {} that grew by "
            "{}, then the others, by usage without its protected part",
            each.size_threshold, each.growing_size_percentile, each.min_growth_ratio);
      case rulesets::KillBy::swap_usage:
        return fmt::format("the largest swap usage, of at least {}",
                           amount_text(each.swap_threshold, "SwapTotal"));
      case rulesets::KillBy::pressure:
        return fmt::format("the highest full {} pressure", resource_name(each.resource));
      case rulesets::KillBy::io_cost: return "the highest cost of I/O";
      case rulesets::KillBy::pg_scan: return "the most pages scanned for reclaim";
    }
    return {};
  }
};

// As a detector, `Always` is a condition; as an action, it ends the chain or goes on with it.
std::string detector_text(const rulesets::Plugin& plugin) {
  if (const auto* always = std::get_if<rulesets::Always>(&plugin.arguments)) {
    return always->proceed ? "always true" : "always false";
  }
  return std::visit(PluginWords(), plugin.arguments);
}

// Whether the action may end its chain; only then the ruleset pauses.
bool may_stop(const rulesets::Plugin& action) {
  if (const auto* always = std::get_if<rulesets::Always>(&action.arguments)) {
    return !always->proceed;
  }
  const auto* kill = std::get_if<rulesets::Kill>(&action.arguments);
  if (kill != nullptr) return !kill->always_continue;
  return std::holds_alternative<rulesets::RestartUnit>(action.arguments);
}

std::string seconds_text(std::chrono::nanoseconds time) {
  return fmt::format("{:.3f} s", std::chrono::duration<double>(time).count());
}

std::string attempts_text(const rulesets::ActionRun& action, const ShowPath& shown) {
  std::string text;
  for (const rulesets::KillAttempt& each : action.attempts) {
    text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", printable(shown(each.cgroup)),
                        to_string(each.outcome));
  }
  return text;
}

const std::int64_t kDefaultHookTimeout = rulesets::Ruleset().prekill_hook_timeout;

}  // namespace

std::string ruleset_text(const rulesets::Ruleset& ruleset, RulesetSource source) {
  std::vector<std::string> times;
  if (std::ranges::any_of(ruleset.actions, may_stop)) {
    times.push_back(fmt::format("pause {} s after an action", ruleset.post_action_delay));
  }
  if (source == RulesetSource::oomd || ruleset.prekill_hook_timeout != kDefaultHookTimeout) {
    times.push_back(fmt::format("prekill hooks take at most {} s", ruleset.prekill_hook_timeout));
  }
  std::string text = fmt::format("ruleset {}:{}{}\n", printable(ruleset.name),
                                 times.empty() ? "" : " ", fmt::join(times, ", "));
  for (const rulesets::DetectorGroup& group : ruleset.groups) {
    text += fmt::format("  {} {}, all of:\n", &group == &ruleset.groups.front() ? "if" : "or if",
                        printable(group.name));
    for (const rulesets::Plugin& plugin : group.plugins) {
      text += fmt::format("    {}\n", printable(detector_text(plugin)));
    }
  }
  text += "  then in turn:\n";
  for (const rulesets::Plugin& plugin : ruleset.actions) {
    text += fmt::format("    {}\n", printable(std::visit(PluginWords(), plugin.arguments)));
  }
  if (ruleset.drop_in_detectors || ruleset.drop_in_actions || ruleset.disable_on_drop_in) {
    text += fmt::format("  drop-ins may replace: {}{}{}\n",
                        ruleset.drop_in_detectors ? "detectors " : "",
                        ruleset.drop_in_actions ? "actions " : "",
                        ruleset.disable_on_drop_in ? "(and disable this ruleset)" : "");
  }
  return text;
}

std::string hook_text(const rulesets::PrekillHook& hook) {
  std::string does;
  if (!hook.program.empty()) {
    does = ": runs " + hook.program;
    for (const std::string& each : hook.arguments) does += " " + each;
  } else if (!hook.socket.empty()) {
    does = ": sends the record to " + hook.socket;
  } else if (!hook.log.empty()) {
    does = ": logs '" + hook.log + "'";
  }
  return fmt::format("prekill hook {} for {} and all above and below them{}\n",
                     printable(hook.name), printable(cgroups_text(hook.cgroups)), printable(does));
}

std::string kills_after_hooks_text(const std::vector<rulesets::Ruleset>& rulesets) {
  std::string text = "after a prekill hook, a kill follows only if a group of its ruleset fires\n";
  for (const rulesets::Ruleset& ruleset : rulesets) {
    if (std::ranges::none_of(ruleset.actions, [](const rulesets::Plugin& action) {
          const auto* kill = std::get_if<rulesets::Kill>(&action.arguments);
          return kill != nullptr && kill->preference == rulesets::PreferenceSource::oomd;
        })) {
      continue;
    }
    text += fmt::format("  of ruleset {}, also if none fires (preference: oomd)\n",
                        printable(ruleset.name));
  }
  return text;
}

std::string decision_text(const rulesets::RuleDecision& decision, const ShowPath& shown) {
  const std::string time = seconds_text(decision.time);
  std::string text;
  for (const rulesets::RulesetRun& run : decision.rulesets) {
    text += fmt::format(
        "{} ruleset {}{}: {}{}{}\n", time, printable(run.name),
        run.drop_in.empty() ? "" : fmt::format(" (drop-in {})", printable(run.drop_in)),
        run.group ? fmt::format("{} fires", printable(*run.group)) : std::string("no group fires"),
        run.paused ? ", paused" : "", run.resumed ? ", chain resumed" : "");
    for (const rulesets::ActionRun& action : run.actions) {
      text += fmt::format("    {} -> {}{}\n", action.name, to_string(action.result),
                          attempts_text(action, shown));
    }
  }
  for (const rulesets::RuleKill& each : decision.kills) {
    text += fmt::format("{} {} {}: {}\n", time, each.dry ? "would kill" : "kill",
                        printable(shown(each.cgroup)), each.reason);
  }
  for (const rulesets::RuleMessage& each : decision.messages) {
    text += fmt::format("{} log: {}\n", time, printable(each.text));
  }
  for (const rulesets::UnitRestart& each : decision.restarts) {
    text += fmt::format("{} {} unit {}\n", time, each.dry ? "would restart" : "restart",
                        printable(each.service));
  }
  for (const rulesets::RuleWrite& each : decision.writes) {
    const std::string value =
        each.value == rulesets::kNoLimit ? "max" : fmt::format("{}", each.value);
    text += fmt::format("{} write {} to {} {}\n", time, value, printable(shown(each.cgroup)),
                        each.file);
  }
  return text;
}

}  // namespace forestall::cli
