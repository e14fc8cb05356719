// SPDX-License-Identifier: Apache-2.0
#include "agent/rule_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "agent/hook_input.h"
#include "rulesets/decision.h"
#include "rulesets/held_settings.h"

namespace forestall::agent {
namespace {

using exports::LogLevel;
using exports::LogLine;

bool sets(const rulesets::Plugin& action) {
  return std::holds_alternative<rulesets::Throttle>(action.arguments) ||
         std::holds_alternative<rulesets::Freeze>(action.arguments) ||
         std::holds_alternative<rulesets::ReclaimMemory>(action.arguments) ||
         std::holds_alternative<rulesets::ProactiveReclaim>(action.arguments);
}

bool is_proactive(const RuleActionReport& action) {
  return action.name == rulesets::kProactiveReclaim;
}

bool is_back_off(const RuleAttempt& attempt) {
  return attempt.outcome == RuleOutcome::backed_off || attempt.outcome == RuleOutcome::node_stalls;
}

bool restarts(const rulesets::Plugin& action) {
  return std::holds_alternative<rulesets::RestartUnit>(action.arguments);
}

bool only_logs(const rulesets::PrekillHook& hook) {
  return hook.only_logs();
}

bool any_action(const Config& config, bool (*is)(const rulesets::Plugin& action)) {
  return config.rules && std::ranges::any_of(*config.rules, [&](const rulesets::Ruleset& ruleset) {
           return std::ranges::any_of(ruleset.actions, is);
         });
}

using Rulesets = SharedValue<std::vector<rulesets::Ruleset>>;

// As the policy keeps its state (policy/state.cc).
bool is_kept(const std::string& name, const Rulesets& before, const Rulesets& after) {
  if (!before || !after) return false;
  bool any = false;
  for (const rulesets::Ruleset& each : *before) {
    if (each.name != name) continue;
    if (std::ranges::find(*after, each) == after->end()) return false;
    any = true;
  }
  return any;
}

// The policy decides again at the next reading, a second later.
constexpr Duration kProactiveTime = std::chrono::seconds(2);
// Cgroups come and go, and each is remembered until the rulesets change.
constexpr std::size_t kProactiveLoggedMax = 1024;

std::vector<RuleReclaim> reclaims_of(const Record& record) {
  std::vector<RuleReclaim> wanted;
  for (const RuleReport& ruleset : record.decision.rulesets) {
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        const bool reclaims =
            attempt.outcome == RuleOutcome::written && attempt.file == rulesets::kReclaimFile;
        const rulesets::Cgroup* cgroup =
            reclaims ? record.observation.rules->find(attempt.cgroup) : nullptr;
        if (cgroup == nullptr) continue;
        RuleReclaim& reclaim = wanted.emplace_back();
        reclaim.cgroup = CgroupId{cgroup->id};
        reclaim.path = attempt.cgroup;
        reclaim.amount = Bytes{attempt.value};
        reclaim.ruleset = ruleset.name;
        if (!is_proactive(action)) continue;
        reclaim.proactive = true;
        reclaim.leave = Bytes{cgroup->current.value_or(0)} - reclaim.amount;
        reclaim.until = MonotonicTime(record.observation.rules->time) + kProactiveTime;
      }
    }
  }
  return wanted;
}

std::string key_of(const RuleReport& ruleset, const RuleActionReport& action,
                   const RuleAttempt& attempt) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", ruleset.name, action.name, attempt.cgroup,
                     attempt.unit, attempt.file, to_string(attempt.outcome));
}

LogLine line_of(const RuleReport& ruleset) {
  LogLine line("ruleset");
  line.field("ruleset", ruleset.name);
  if (ruleset.group) line.field("detectors", *ruleset.group);
  return line;
}

}  // namespace

void RuleEffects::configured(const Config& config) {
  settings_.cancel_reclaims();  // rulesets that stay, and still fire, request theirs again
  restarts_.cancel();
  if (config.dry_run || config.hooks != hooks_in_force_) hooks_.cancel();
  if (config.rules != rules_in_force_) {
    // The policy goes on with a kill of a ruleset that is still there, after its hook.
    hooks_.keep_only([&](const std::string& ruleset) {
      return is_kept(ruleset, rules_in_force_, config.rules);
    });
    proactive_logged_.clear();
    proactive_failed_.clear();
  }
  rules_in_force_ = config.rules;
  hooks_in_force_ = config.hooks;
  if (!config.dry_run) start_parts(config);
}

void RuleEffects::start_parts(const Config& config) {
  const auto check = [&](const Result<void>& started, const char* effect) {
    if (started) return;
    log_.write(LogLevel::warning,
               LogLine("ruleset").field("problem", started.error().text()).field("effect", effect));
  };
  if (any_action(config, sets)) {
    check(settings_.start(), "actions reclaim, throttle and freeze have no effect");
  }
  if (any_action(config, restarts)) check(restarts_.start(), "the action restart has no effect");
  if (config.rules && config.hooks && !std::ranges::all_of(*config.hooks, only_logs)) {
    check(hooks_.start(), "no prekill hook runs, and no kill waits for one");
  }
}

bool RuleEffects::evaluated(const Config& config, const PolicyState& state, const Record& record) {
  const bool held = config.rules && state.rules && !config.dry_run;
  settings_.apply(held ? rulesets::held_settings(*config.rules, *state.rules)
                       : std::vector<RuleSetting>());
  if (held && record.observation.rules) settings_.reclaim(reclaims_of(record));
  const bool restarts = held && request_restarts(record.decision);
  if (held) request_hooks(config, record);
  if (record.observation.rules) {
    count_back_offs(record.decision);
    log_decision(record.decision);
  }
  log_results();
  log_restarts();
  note_hooks();
  counts_.rule_settings_not_undone = settings_.not_undone();
  return restarts;
}

bool RuleEffects::request_restarts(const Decision& decision) {
  bool requested = false;
  for (const RuleReport& ruleset : decision.rulesets) {
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        if (attempt.outcome != RuleOutcome::restart_requested) continue;
        restarts_.request(attempt.unit);
        requested = true;
      }
    }
  }
  return requested;
}

void RuleEffects::request_hooks(const Config& config, const Record& record) {
  for (const RuleReport& ruleset : record.decision.rulesets) {
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        if (attempt.outcome != RuleOutcome::hook_requested || !config.hooks) continue;
        const auto hook =
            std::ranges::find(*config.hooks, attempt.hook, &rulesets::PrekillHook::name);
        if (hook == config.hooks->end()) continue;
        hooks_.request({attempt.hook_run, *hook, attempt.hook_until,
                        hook_input(record, ruleset, action, attempt)},
                       attempt.cgroup, ruleset.name);
      }
    }
  }
}

void RuleEffects::note_hooks() {
  for (const HookProgress& hook : hooks_.take_ended()) {
    ++counts_.hooks[static_cast<std::size_t>(hook.state)];
    LogLine line("prekill-hook");
    line.field("hook", hook.hook)
        .field("cgroup", hook.cgroup)
        .field("state", to_string(hook.state))
        .field("took", hook.took);
    if (hook.exit_code) line.field("exit_code", *hook.exit_code);
    if (!hook.problem.empty()) line.field("problem", hook.problem);
    log_.write(hook.state == HookState::succeeded ? LogLevel::info : LogLevel::warning, line);
  }
}

void RuleEffects::log_decision(const Decision& decision) {
  std::set<std::string> attempts;
  for (const RuleReport& ruleset : decision.rulesets) {
    for (const std::string& text : ruleset.log) {
      log_.write(LogLevel::warning, line_of(ruleset).field("text", text));
    }
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        if (is_proactive(action)) {
          log_proactive(ruleset, action, attempt);
          continue;
        }
        const auto [key, is_new] = attempts.insert(key_of(ruleset, action, attempt));
        if (is_new && !logged_.contains(*key)) log_attempt(ruleset, action, attempt);
      }
    }
  }
  logged_ = std::move(attempts);
}

// Of proactive reclaim, which repeats all the time: the first of each kind is logged, and all are
// counted. A full set stays full: if it were cleared, each round would log as many lines again.
// Without room in the log a line waits for the next round.
bool RuleEffects::is_first(std::set<std::string>& logged, std::string key) const {
  if (logged.size() >= kProactiveLoggedMax || !log_.has_room()) return false;
  if (!logged.insert(std::move(key)).second) return false;
  if (logged.size() == kProactiveLoggedMax) {
    log_.write(LogLevel::info,
               LogLine("ruleset")
                   .field("limit", kProactiveLoggedMax)
                   .field("effect", "further lines of proactive reclaim are counted only"));
  }
  return true;
}

void RuleEffects::log_proactive(const RuleReport& ruleset, const RuleActionReport& action,
                                const RuleAttempt& attempt) {
  if (!is_first(proactive_logged_, key_of(ruleset, action, attempt))) return;
  LogLine line("ruleset");
  line.field("ruleset", ruleset.name)
      .field("action", action.name)
      .field("cgroup", attempt.cgroup)
      .field("outcome", to_string(attempt.outcome));
  if (!is_back_off(attempt)) line.field("bytes", attempt.value);
  log_.write(LogLevel::info, line.field("repeated", "is counted and not logged"));
}

void RuleEffects::count_back_offs(const Decision& decision) {
  for (const RuleReport& ruleset : decision.rulesets) {
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        if (is_back_off(attempt)) counts_.reclaims.add_back_off(ruleset.name, attempt.cgroup);
      }
    }
  }
}

void RuleEffects::log_attempt(const RuleReport& ruleset, const RuleActionReport& action,
                              const RuleAttempt& attempt) const {
  LogLine line = line_of(ruleset);
  line.field("action", action.name);
  if (!attempt.unit.empty()) {
    line.field("unit", attempt.unit).field("outcome", to_string(attempt.outcome));
  } else if (!attempt.hook.empty()) {
    line.field("hook", attempt.hook)
        .field("cgroup", attempt.cgroup)
        .field("outcome", to_string(attempt.outcome));
  } else if (!attempt.file.empty()) {
    line.field("cgroup", attempt.cgroup)
        .field("file", attempt.file)
        .field("value", attempt.value)
        .field("outcome", to_string(attempt.outcome));
  } else if (attempt.outcome == RuleOutcome::dry_run) {
    line.field("would_kill", attempt.cgroup);
  } else {
    return;
  }
  log_.write(LogLevel::warning, line);
}

void RuleEffects::log_results() {
  for (const actuators::RuleSettingResult& result : settings_.take_results()) {
    if (result.dropped) {
      note_dropped(result);
      continue;
    }
    if (result.what == rulesets::kReclaimFile) {
      counts_.reclaims.add_write(result.ruleset, result.path, result.reclaimed,
                                 result.failure.has_value());
    }
    if (result.proactive &&
        (!result.failure || !is_first(proactive_failed_, result.ruleset + "\n" + result.path))) {
      continue;
    }
    LogLine line("ruleset");
    if (!result.ruleset.empty()) line.field("ruleset", result.ruleset);
    line.field("cgroup", result.path).field("file", result.what);
    if (result.failure) {
      line.field("problem", result.failure->text());
      if (result.retries) line.field("effect", "it stays set, and the undo is tried again");
      log_.write(LogLevel::warning, line);
    } else if (result.attempts > 0) {
      log_.write(LogLevel::warning, line.field("undone_after_attempts", result.attempts));
    } else {
      log_.write(LogLevel::info, line.field("wanted_bytes", result.wanted.count)
                                     .field("reclaimed_bytes", result.reclaimed.count));
    }
  }
}

void RuleEffects::note_dropped(const actuators::RuleSettingResult& result) {
  counts_.reclaims.add_dropped(result.ruleset, result.path);
  if (!is_first(proactive_logged_, fmt::format("{}\n{}\ndropped", result.ruleset, result.path))) {
    return;
  }
  log_.write(LogLevel::info, LogLine("ruleset")
                                 .field("ruleset", result.ruleset)
                                 .field("cgroup", result.path)
                                 .field("file", result.what)
                                 .field("dropped", "was not begun in time")
                                 .field("repeated", "is counted and not logged"));
}

void RuleEffects::log_restarts() const {
  for (const actuators::UnitRestartResult& result : restarts_.take_results()) {
    LogLine line("ruleset");
    // Without a failure, what was not begun was a stop already.
    line.field("unit", result.unit)
        .field("restart", result.failure ? "failed"
                          : result.begun ? "done"
                                         : "stopped-already");
    line.field("took", result.took);
    if (result.failure) line.field("problem", result.failure->text());
    log_.write(result.failure ? LogLevel::warning : LogLevel::info, line);
  }
}

}  // namespace forestall::agent
