// SPDX-License-Identifier: Apache-2.0
#include "rulesets/kill_actions.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/ranking.h"
#include "rulesets/rule_amounts.h"

namespace forestall::rulesets {
namespace {

bool ranks_leaves(const Kill& arguments) {
  return arguments.recursive && arguments.preference == PreferenceSource::systemd;
}

bool descends(const Kill& arguments) {
  return arguments.recursive && !ranks_leaves(arguments);
}

// A cgroup without children, or one that is killed as a whole. `top` itself only if it has no
// children.
void add_leaves(const RuleObservation& observed, const Cgroup& top,
                std::vector<const Cgroup*>& leaves) {
  const std::vector<const Cgroup*> children = observed.children(top);
  if (children.empty()) leaves.push_back(&top);
  for (const Cgroup* child : children) {
    if (child->oom_group.value_or(false)) {
      leaves.push_back(child);
    } else {
      add_leaves(observed, *child, leaves);
    }
  }
}

std::vector<const Cgroup*> candidates(const Kill& arguments, const RuleObservation& observed) {
  std::vector<const Cgroup*> matches = matching(arguments.cgroups, observed);
  if (!ranks_leaves(arguments)) return matches;
  std::vector<const Cgroup*> leaves;
  for (const Cgroup* each : matches) add_leaves(observed, *each, leaves);
  std::ranges::sort(leaves, {}, &Cgroup::path);
  const auto repeated = std::ranges::unique(leaves);
  leaves.erase(repeated.begin(), repeated.end());
  return leaves;
}

}  // namespace

PluginResult KillActions::run(const Kill& arguments, PluginRun& run) {
  PluginState& state = *run.state;
  const bool ran_last_time = state.last_run && *state.last_run + 1 == scope_.state.evaluations;
  state.last_run = scope_.state.evaluations;
  KillEnd end = KillEnd::none;
  if (state.hook) {
    end = resume_kill(arguments, run);
  } else if (!run.fires && arguments.preference == PreferenceSource::systemd) {
    // Between the two samples of a rate the pressure ended.
    run.pause = 0;
    return PluginResult::stop;
  } else if (arguments.by == KillBy::pg_scan && !ran_last_time) {
    // A rate needs two samples.
    collect_pgscan(arguments, state);
    return PluginResult::suspended;
  } else {
    std::vector<const Cgroup*> stack =
        rank(arguments, state, scope_.observed, history_, candidates(arguments, scope_.observed),
             run.report->ranking);
    std::reverse(stack.begin(), stack.end());
    end = try_candidates(arguments, run, std::move(stack));
  }
  if (arguments.by == KillBy::pg_scan) collect_pgscan(arguments, state);
  if (waits()) return PluginResult::stop;
  if (end == KillEnd::deferred) return PluginResult::suspended;
  if (end == KillEnd::held) {
    run.pause = 0;
    return PluginResult::stop;
  }
  if (end == KillEnd::none || arguments.always_continue) return PluginResult::proceed;
  run.pause = arguments.post_action_delay;
  return PluginResult::stop;
}

void KillActions::collect_pgscan(const Kill& arguments, PluginState& state) {
  std::map<std::uint64_t, const Cgroup*> covered;
  for (const Cgroup* each : matching(arguments.cgroups, scope_.observed)) {
    cover(scope_.observed, *each, arguments.recursive, covered);
  }
  state.pgscan.clear();
  for (const auto& [id, cgroup] : covered) {
    if (cgroup->stat && cgroup->stat->pgscan) state.pgscan[id] = *cgroup->stat->pgscan;
  }
}

KillActions::KillEnd KillActions::try_candidates(const Kill& arguments, PluginRun& run,
                                                 std::vector<const Cgroup*> stack) {
  while (!stack.empty()) {
    const Cgroup& cgroup = *stack.back();
    stack.pop_back();
    if (descends(arguments) && !cgroup.oom_group.value_or(false)) {
      const std::vector<const Cgroup*> children = scope_.observed.children(cgroup);
      if (!children.empty()) {
        DescentRanking& descent = run.report->descents.emplace_back();
        descent.cgroup = cgroup.path;
        const std::vector<const Cgroup*> order =
            rank(arguments, *run.state, scope_.observed, history_, children, descent.ranking);
        stack.insert(stack.end(), order.rbegin(), order.rend());
        continue;
      }
    }
    if (!cgroup.populated.value_or(true)) continue;
    const KillEnd hook = begin_hook(run, cgroup, stack);
    if (waits() || hook != KillEnd::none) return hook;
    const KillEnd end = kill_cgroup(run, cgroup);
    if (waits() || end != KillEnd::none) return end;
  }
  return KillEnd::none;
}

// A kill among the detectors before any group fired belongs to no run, and so has no deadline.
bool KillActions::hooks_in_time(const PluginRun& run) const {
  if (run.chain == nullptr) return true;
  const auto& deadline = run.chain->hook_deadline;
  return deadline && scope_.observed.time <= *deadline;
}

std::chrono::nanoseconds KillActions::hook_end(const PluginRun& run) const {
  if (run.chain != nullptr && run.chain->hook_deadline) return *run.chain->hook_deadline;
  return scope_.observed.time + kHookWait;
}

bool KillActions::is_dry(const PluginRun& run) const {
  return std::get<Kill>(run.plugin->arguments).dry || scope_.config.dry_run;
}

void KillActions::report_wait(PluginRun& run, const HookWait& wait, bool starts) const {
  KillAttempt& attempt =
      run.report->attempts.emplace_back(KillAttempt{wait.victim.path, AttemptOutcome::hook});
  attempt.hook = wait.hook;
  attempt.hook_run = wait.run;
  attempt.hook_starts = starts;
  attempt.hook_until = hook_end(run);
}

// The state keeps, by victim, when a wait for a hook ended without its kill.
bool KillActions::ran_lately(PluginRun& run, const Cgroup& victim) const {
  const std::int64_t pause =
      std::get<Kill>(run.plugin->arguments).post_action_delay.value_or(run.ruleset_pause);
  const auto kept = std::max<std::chrono::nanoseconds>(seconds_of(pause), kHookKept);
  std::erase_if(run.state->values, [&](const auto& each) {
    return each.second.empty() || scope_.observed.time - each.second.back().time > kept;
  });
  return run.state->values.contains(victim.id);
}

void KillActions::keep_hook(PluginRun& run, const HookWait& wait) const {
  run.state->values[wait.victim.id] = {{scope_.observed.time, static_cast<std::int64_t>(wait.run)}};
}

KillActions::KillEnd KillActions::begin_hook(PluginRun& run, const Cgroup& victim,
                                             const std::vector<const Cgroup*>& stack) {
  if (!hooks_in_time(run)) return KillEnd::none;
  const auto hook = std::find_if(hooks_.begin(), hooks_.end(), [&victim](const PrekillHook& each) {
    return hook_matches(each.cgroups, victim.path);
  });
  if (hook == hooks_.end()) return KillEnd::none;
  const bool ran = ran_lately(run, victim);
  const std::uint64_t id = ran ? 0 : ++scope_.state.hook_runs;
  WantedEffect start{WantedEffect::Kind::start_hook, victim.path, hook->name, id};
  start.until = hook_end(run);
  start.dry = is_dry(run);
  start.ran = ran;
  const auto finished = scope_.effects.answer(std::move(start));
  if (!finished || *finished == EffectAnswer::yes) return KillEnd::none;
  if (ran && *finished == EffectAnswer::no) return KillEnd::none;
  if (*finished == EffectAnswer::not_now) {
    run.report->attempts.push_back({victim.path, AttemptOutcome::held});
    return KillEnd::held;
  }
  HookWait wait{id, hook->name, {victim.path, victim.id}, {}};
  for (auto each = stack.rbegin(); each != stack.rend(); ++each) {
    wait.next.push_back({(*each)->path, (*each)->id});
  }
  report_wait(run, wait, true);
  run.state->hook = std::move(wait);
  return KillEnd::deferred;
}

KillActions::KillEnd KillActions::resume_kill(const Kill& arguments, PluginRun& run) {
  const auto present = [this](const CgroupRef& ref) {
    const Cgroup* found = scope_.observed.find(ref.path);
    return found != nullptr && found->id == ref.id ? found : nullptr;
  };
  const HookWait wait = *run.state->hook;
  WantedEffect poll{WantedEffect::Kind::poll_hook, wait.victim.path, wait.hook, wait.run};
  poll.cgroup_id = wait.victim.id;
  const auto finished = scope_.effects.answer(std::move(poll));
  if (!finished) return KillEnd::none;
  if (*finished == EffectAnswer::not_now) {
    run.state->hook.reset();
    keep_hook(run, wait);
    run.report->attempts.push_back({wait.victim.path, AttemptOutcome::held});
    return KillEnd::held;
  }
  if (*finished != EffectAnswer::yes && hooks_in_time(run)) {
    report_wait(run, wait, false);
    return KillEnd::deferred;
  }
  run.state->hook.reset();
  // oomd kills even if no group fires any more.
  if (!run.fires && arguments.preference != PreferenceSource::oomd) {
    keep_hook(run, wait);
    run.report->attempts.push_back({wait.victim.path, AttemptOutcome::not_needed});
    scope_.decision.messages.push_back(
        {std::string(run.ruleset), run.chain == nullptr ? std::string() : run.chain->group,
         "No group of detectors fires after the prekill hook " + wait.hook +
             ", so no kill is needed: " + wait.victim.path});
    return KillEnd::held;
  }
  // If the victim is gone, the kill is no longer needed.
  const Cgroup* victim = present(wait.victim);
  if (victim == nullptr) return KillEnd::none;
  const KillEnd end = kill_cgroup(run, *victim);
  if (end == KillEnd::held) keep_hook(run, wait);
  if (waits() || end != KillEnd::none) return end;
  std::vector<const Cgroup*> next;
  for (const CgroupRef& ref : wait.next) {
    const Cgroup* candidate = present(ref);
    if (candidate == nullptr) break;
    next.push_back(candidate);
  }
  std::reverse(next.begin(), next.end());
  return try_candidates(arguments, run, std::move(next));
}

KillActions::KillEnd KillActions::kill_cgroup(PluginRun& run, const Cgroup& victim) {
  const bool dry = is_dry(run);
  bool killed = true;
  if (!dry) {
    const auto answered = scope_.effects.answer({WantedEffect::Kind::kill, victim.path, {}, 0});
    if (!answered) return KillEnd::none;
    if (*answered == EffectAnswer::not_now) {
      run.report->attempts.push_back({victim.path, AttemptOutcome::held});
      return KillEnd::held;
    }
    killed = *answered == EffectAnswer::yes;
  }
  const AttemptOutcome outcome = dry      ? AttemptOutcome::dry
                                 : killed ? AttemptOutcome::killed
                                          : AttemptOutcome::failed;
  run.report->attempts.push_back({victim.path, outcome});
  if (!killed) return KillEnd::none;
  scope_.decision.kills.push_back({victim.path, run.plugin->name, std::string(run.ruleset),
                                   run.chain == nullptr ? std::string() : run.chain->group, dry});
  return KillEnd::killed;
}

// oomd sleeps for the action's delay and then pauses the ruleset; here both are one pause.
PluginResult KillActions::run(const RestartUnit& arguments, PluginRun& run) {
  const bool dry = arguments.dry || scope_.config.dry_run;
  run.report->restart = UnitRestart{arguments.service, dry};
  if (!dry) {
    const auto worked =
        scope_.effects.answer({WantedEffect::Kind::restart, arguments.service, {}, 0});
    if (!worked) return PluginResult::stop;
    if (*worked == EffectAnswer::not_now) {
      run.pause = 0;
      return PluginResult::stop;
    }
    if (*worked == EffectAnswer::no) return PluginResult::proceed;
    if (*worked == EffectAnswer::begun) run.state->since = scope_.observed.time;
  }
  scope_.decision.restarts.push_back({arguments.service, dry});
  run.extra_pause = arguments.post_action_delay;
  return PluginResult::stop;
}

}  // namespace forestall::rulesets
