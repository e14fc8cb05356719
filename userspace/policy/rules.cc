// SPDX-License-Identifier: Apache-2.0
#include "policy/rules.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "base/parse.h"
#include "model/unit_restart.h"
#include "model/workload_class.h"
#include "policy/damage_limit.h"
#include "policy/exclusion.h"
#include "policy/saturating.h"
#include "rulesets/engine.h"
#include "rulesets/held_settings.h"

namespace forestall::policy {
namespace {

using rulesets::AttemptOutcome;
using rulesets::EffectAnswer;

// A decision shows the head of each ranking.
constexpr std::size_t kRankedShown = 32;

RuleOutcome outcome_of(Exclusion exclusion) {
  switch (exclusion) {
    case Exclusion::none: return RuleOutcome::killed;
    case Exclusion::is_protected: return RuleOutcome::is_protected;
    case Exclusion::kill_in_flight: return RuleOutcome::held;
    case Exclusion::kill_failed:
    case Exclusion::unkillable: return RuleOutcome::kill_failed;
    case Exclusion::empty: return RuleOutcome::empty;
  }
  return RuleOutcome::held;
}

EffectAnswer answer_to(RuleOutcome outcome) {
  switch (outcome) {
    case RuleOutcome::killed:
    case RuleOutcome::dry_run: return EffectAnswer::yes;
    case RuleOutcome::restart_requested: return EffectAnswer::begun;
    case RuleOutcome::held:
    case RuleOutcome::kill_limit: return EffectAnswer::not_now;
    default: return EffectAnswer::no;
  }
}

ChainStep chain_step(rulesets::PluginResult result) {
  switch (result) {
    case rulesets::PluginResult::proceed: return ChainStep::proceed;
    case rulesets::PluginResult::stop: return ChainStep::stop;
    case rulesets::PluginResult::suspended: return ChainStep::suspended;
  }
  return ChainStep::stop;
}

void add_ranking(const std::vector<rulesets::RankedCgroup>& ranking, std::vector<RuleRanked>& out) {
  for (const rulesets::RankedCgroup& each : ranking) {
    if (out.size() == kRankedShown) return;
    RuleRanked& added = out.emplace_back();
    added.cgroup = each.cgroup;
    added.preference = std::string(to_string(each.preference));
    for (const auto& [name, value] : each.key) {
      const double number = std::visit(
          [](auto of_either_kind) { return static_cast<double>(of_either_kind); }, value);
      added.key.emplace_back(std::string(name), number);
    }
  }
}

// Whether the cgroup is that of a unit of systemd or lies in it. systemd makes the cgroups of units
// in slices only: a workload may give its own cgroups the name of a unit, and must not protect that
// unit by it. src/basic/cgroup-util.c cg_escape() adds "_" to some names.
bool is_in_unit(std::string_view path, std::string_view unit) {
  for (;;) {
    if (path.starts_with('/')) path.remove_prefix(1);
    const std::string_view name = path.substr(0, path.find('/'));
    if (name == unit || (name.starts_with('_') && name.substr(1) == unit)) return true;
    if (!name.ends_with(".slice")) return false;
    path.remove_prefix(name.size());
  }
}

class RulePass {
 public:
  RulePass(const Config& config, const Observation& observation, const Decision& thresholds)
      : rulesets_(*config.rules),
        observation_(observation),
        rules_(*observation.rules),
        rate_(config, observation),
        dry_run_(config.dry_run) {
    if (config.hooks) hooks_ = *config.hooks;
    program_.program = rulesets::RuleProgram(rulesets_, hooks_);
    const bool reads_disks =
        thresholds.action == Action::inspect && thresholds.reason == Reason::disk_usage_unread;
    busy_ = (thresholds.action != Action::none && !reads_disks) ||
            std::ranges::any_of(observation.kills, [&](const KillProgress& kill) {
              return kill.state == KillState::in_flight && !is_overdue(kill);
            });
  }

  // Nothing: the workloads are needed first.
  std::optional<rulesets::RuleStep> evaluate(const rulesets::RuleState& before) {
    std::vector<EffectAnswer> answers;
    rulesets::RuleStep step = rulesets::step(program_, before, rules_, answers);
    while (step.wanted) {
      const auto answer = carry_out(*step.wanted);
      if (!answer) return std::nullopt;
      answers.push_back(*answer);
      step = rulesets::step(program_, before, rules_, answers);
    }
    if (!may_set(step)) return std::nullopt;
    return step;
  }

  // What the rulesets did, and whose kill the victim's is.
  void report(const rulesets::RuleDecision& decided, Decision& decision) {
    for (const rulesets::RulesetRun& run : decided.rulesets) {
      RuleReport& report = decision.rulesets.emplace_back();
      report.name = run.name;
      report.group = run.group;
      report.paused = run.paused;
      report.resumed = run.resumed;
      for (const rulesets::ActionRun& action : run.actions) {
        report.actions.push_back(action_report(action));
        if (std::ranges::any_of(report.actions.back().attempts, [](const RuleAttempt& attempt) {
              return attempt.outcome == RuleOutcome::killed;
            })) {
          decision.ruleset = decision.rulesets.size() - 1;
        }
      }
      for (const rulesets::RuleMessage& message : decided.messages) {
        if (message.ruleset == run.name) report.log.push_back(message.text);
      }
      add_hook_lines(report);
    }
  }

  // The victim is the last one.
  [[nodiscard]] std::vector<Candidate>& tried() { return tried_; }
  [[nodiscard]] bool kills() const { return has_victim_; }
  // As in RuleState::rulesets: of the configuration's rulesets, from 1.
  [[nodiscard]] std::uint64_t id_of(const std::string& ruleset) const {
    const auto found = std::ranges::find(rulesets_, ruleset, &rulesets::Ruleset::name);
    return static_cast<std::uint64_t>(found - rulesets_.begin()) + 1;
  }

 private:
  // Nothing: the workloads are needed first.
  std::optional<EffectAnswer> carry_out(const rulesets::WantedEffect& wanted) {
    using Kind = rulesets::WantedEffect::Kind;
    std::optional<RuleOutcome> outcome;
    switch (wanted.kind) {
      case Kind::kill: outcome = check_target(wanted.target); break;
      case Kind::restart: outcome = check_unit(wanted.target); break;
      case Kind::poll_restart: {
        const EffectAnswer answer = restart_answer(wanted);
        if (answer == EffectAnswer::no) outcomes_.push_back(RuleOutcome::kill_failed);
        return answer;
      }
      case Kind::start_hook: return start_hook(wanted);
      case Kind::poll_hook: return hook_answer(wanted);
    }
    if (!outcome) return std::nullopt;
    outcomes_.push_back(*outcome);
    // Nothing but the victim that waited is killed on a decision of the past.
    if (wanted.kind == Kind::kill && wanted.target == resumed_ && *outcome != RuleOutcome::killed) {
      return EffectAnswer::not_now;
    }
    return answer_to(*outcome);
  }

  // One that is not listed ended long ago, or was recorded by an agent that listed none.
  [[nodiscard]] EffectAnswer restart_answer(const rulesets::WantedEffect& wanted) const {
    const auto listed = std::ranges::find_if(observation_.kills, [&](const KillProgress& kill) {
      return is_restart_of(kill, wanted.target) && kill.started.time_since_epoch() >= wanted.since;
    });
    if (listed == observation_.kills.end()) return EffectAnswer::yes;
    switch (listed->state) {
      case KillState::released: return EffectAnswer::yes;
      case KillState::failed:
      case KillState::stuck: return EffectAnswer::no;
      case KillState::in_flight:
      case KillState::terminating: break;
    }
    return rules_.time < wanted.until ? EffectAnswer::begun : EffectAnswer::no;
  }

  // No hook runs for a dry kill, or for one that cannot be made now; the kill is answered next.
  // Nothing: the workloads are needed first.
  std::optional<EffectAnswer> start_hook(const rulesets::WantedEffect& wanted) {
    if (wanted.dry || dry_run_) return EffectAnswer::yes;
    if (wanted.ran) {
      const bool runs = std::ranges::any_of(observation_.hooks, [&](const HookProgress& each) {
        return is_running(each) && each.cgroup == wanted.target;
      });
      if (runs) outcomes_.push_back(RuleOutcome::held);
      return runs ? EffectAnswer::not_now : EffectAnswer::yes;
    }
    std::optional<Candidate> candidate;
    const auto outcome = judge_target(wanted.target, candidate);
    if (!outcome) return std::nullopt;
    const auto hook = std::ranges::find(hooks_, wanted.hook, &rulesets::PrekillHook::name);
    if (*outcome != RuleOutcome::killed || hook == hooks_.end()) return EffectAnswer::yes;
    if (hook->only_logs()) {
      hook_lines_.push_back({wanted.target, hook->log});
      return EffectAnswer::yes;
    }
    // One crossing, one victim: the kill of one ruleset waits at a time.
    if (std::ranges::any_of(observation_.hooks, is_running)) {
      outcomes_.push_back(RuleOutcome::held);
      return EffectAnswer::not_now;
    }
    waits_for_hook_ = true;
    return EffectAnswer::no;
  }

  // The wait is void if its run is not listed (a reload dropped it), if the victim is gone, or if
  // another kill or restart began meanwhile: it may have ended the pressure.
  EffectAnswer hook_answer(const rulesets::WantedEffect& wanted) {
    const auto run = std::ranges::find_if(observation_.hooks, [&](const HookProgress& each) {
      return each.run == wanted.hook_run && each.hook == wanted.hook &&
             each.cgroup == wanted.target;
    });
    const rulesets::Cgroup* victim = rules_.find(wanted.target);
    const bool is_void = run == observation_.hooks.end() || victim == nullptr ||
                         victim->id != wanted.cgroup_id || !victim->populated.value_or(true) ||
                         std::ranges::any_of(observation_.kills, [&](const KillProgress& kill) {
                           return kill.started >= run->started && kill.state != KillState::failed;
                         });
    if (is_void) {
      outcomes_.push_back(RuleOutcome::held);
      return EffectAnswer::not_now;
    }
    resumed_ = wanted.target;
    return rulesets::effect_answer(!is_running(*run));
  }

  static bool is_running(const HookProgress& hook) { return hook.state == HookState::running; }

  void add_hook_lines(RuleReport& report) const {
    for (const RuleActionReport& action : report.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        if (attempt.outcome != RuleOutcome::killed) continue;
        for (const auto& [target, line] : hook_lines_) {
          if (target == attempt.cgroup) report.log.push_back(line + ": " + target);
        }
      }
    }
  }

  // What a kill of the cgroup comes to. Nothing: the workloads are needed first.
  std::optional<RuleOutcome> check_target(const std::string& target) {
    std::optional<Candidate> candidate;
    const auto outcome = judge_target(target, candidate);
    if (candidate) tried_.push_back(std::move(*candidate));
    if (outcome == RuleOutcome::killed) has_victim_ = true;
    return outcome;
  }

  // The same, without effect on this pass. `candidate`: the cgroup, if it is one.
  std::optional<RuleOutcome> judge_target(const std::string& target,
                                          std::optional<Candidate>& candidate) {
    if (busy_ || has_victim_ || restarts_ || waits_for_hook_) return RuleOutcome::held;
    const rulesets::Cgroup* cgroup = rules_.find(target);
    if (cgroup == nullptr || rulesets::is_root(*cgroup) || is_spared(target)) {
      return RuleOutcome::is_protected;
    }
    if (!observation_.workloads) return std::nullopt;
    Candidate found = candidate_of(*cgroup);
    const RuleOutcome outcome = outcome_of(found.exclusion);
    if (outcome == RuleOutcome::killed && rate_.is_reached(workload_class_at(target))) {
      return RuleOutcome::kill_limit;
    }
    candidate = std::move(found);
    return outcome;
  }

  // What a restart of the unit comes to: it ends the processes of the unit's cgroup. One step has
  // one victim. Nothing: the workloads are needed first.
  std::optional<RuleOutcome> check_unit(const std::string& unit) {
    if (busy_ || has_victim_ || restarts_ || waits_for_hook_) return RuleOutcome::held;
    if (has_failed_restart(unit)) return RuleOutcome::kill_failed;
    const auto is_inside = [&](const std::string& path) { return is_in_unit(path, unit); };
    if (std::ranges::any_of(rules_.spared, is_inside)) return RuleOutcome::is_protected;
    if (!observation_.workloads) return std::nullopt;
    if (has_protected_workload(is_inside)) return RuleOutcome::is_protected;
    if (rate_.is_reached(workload_class_at(unit))) return RuleOutcome::kill_limit;
    restarts_ = true;
    return dry_run_ ? RuleOutcome::dry_run : RuleOutcome::restart_requested;
  }

  // A stop or a start may take minutes, and only the unit's own ruleset waits that long.
  [[nodiscard]] bool is_overdue(const KillProgress& kill) const {
    return is_unit_restart(kill) &&
           elapsed(kill.started, observation_.at) >= rulesets::kRestartWait;
  }

  // As a cgroup whose kill failed, or takes too long.
  [[nodiscard]] bool has_failed_restart(const std::string& unit) const {
    return std::ranges::any_of(observation_.kills, [&](const KillProgress& kill) {
      return is_restart_of(kill, unit) && kill.state != KillState::released;
    });
  }

  bool has_protected_workload(const std::function<bool(const std::string& path)>& is_inside) {
    const std::vector<WorkloadSample>& workloads = *observation_.workloads;
    if (!exclusions_) exclusions_.emplace(workloads, observation_.kills);
    return std::ranges::any_of(workloads,
                               [&](const WorkloadSample& each) {
                                 return is_inside(each.workload.path) &&
                                        exclusions_->of(each) == Exclusion::is_protected;
                               }) ||
           std::ranges::any_of(rules_.cgroups, [&](const rulesets::Cgroup& each) {
             return is_inside(each.path) && candidate_of(each).exclusion == Exclusion::is_protected;
           });
  }

  // Forgets settings of cgroups whose kill would be refused. False: the workloads are needed first.
  bool may_set(rulesets::RuleStep& step) {
    for (const rulesets::RuleWrite& write : step.decision.writes) {
      if (write.file == rulesets::kReclaimFile || refused_.contains(write.cgroup)) continue;
      if (!observation_.workloads) return false;
      const rulesets::Cgroup* cgroup = rules_.find(write.cgroup);
      if (cgroup == nullptr || is_spared(write.cgroup) ||
          candidate_of(*cgroup).exclusion == Exclusion::is_protected) {
        refused_.insert(write.cgroup);
      }
    }
    rulesets::forget_held(step.state, [&](const rulesets::HeldSetting& held) {
      return refused_.contains(held.path);
    });
    return true;
  }

  [[nodiscard]] RuleOutcome outcome_of_write(const rulesets::KillAttempt& attempt) const {
    if (attempt.outcome == AttemptOutcome::dry) return RuleOutcome::dry_run;
    if (attempt.outcome == AttemptOutcome::backed_off) return RuleOutcome::backed_off;
    if (attempt.outcome == AttemptOutcome::node_stalls) return RuleOutcome::node_stalls;
    if (attempt.file != rulesets::kReclaimFile && refused_.contains(attempt.cgroup)) {
      return RuleOutcome::is_protected;
    }
    return dry_run_ ? RuleOutcome::dry_run : RuleOutcome::written;
  }

  [[nodiscard]] bool is_spared(const std::string& target) const {
    return std::ranges::any_of(rules_.spared, [&](const std::string& spared) {
      return path_is_within(spared, target) || path_is_within(target, spared);
    });
  }

  Candidate candidate_of(const rulesets::Cgroup& cgroup) {
    const std::vector<WorkloadSample>& workloads = *observation_.workloads;
    if (!exclusions_) exclusions_.emplace(workloads, observation_.kills);
    Candidate candidate;
    const auto known = std::ranges::find_if(workloads, [&](const WorkloadSample& each) {
      return each.workload.cgroup.inode == cgroup.id;
    });
    if (known != workloads.end()) {
      candidate.sample = *known;
    } else {
      Workload& workload = candidate.sample.workload;
      workload.cgroup = CgroupId{cgroup.id};
      workload.path = cgroup.path;
      workload.name = cgroup.path.substr(cgroup.path.rfind('/') + 1);
      if (cgroup.current) candidate.sample.usage = Bytes{*cgroup.current};
      if (cgroup.stat && cgroup.stat->inactive_file) {
        candidate.sample.inactive_file = Bytes{*cgroup.stat->inactive_file};
      }
    }
    candidate.key.measured = cgroup.current.has_value();
    candidate.key.usage = cgroup.current.value_or(0);
    candidate.exclusion = exclusions_->of(candidate.sample);
    return candidate;
  }

  static RuleAttempt hook_attempt(const rulesets::KillAttempt& attempt) {
    RuleAttempt out{attempt.cgroup,
                    attempt.hook_starts ? RuleOutcome::hook_requested : RuleOutcome::hook_pending};
    out.hook = attempt.hook;
    out.hook_run = attempt.hook_run;
    out.hook_until = MonotonicTime(attempt.hook_until);
    return out;
  }

  // The engine's attempts at a kill are in the order of the outcomes.
  RuleActionReport action_report(const rulesets::ActionRun& action) {
    RuleActionReport report;
    report.name = action.name;
    report.step = chain_step(action.result);
    add_ranking(action.ranking, report.ranking);
    for (const rulesets::DescentRanking& each : action.descents) {
      add_ranking(each.ranking, report.ranking);
    }
    for (const rulesets::KillAttempt& attempt : action.attempts) {
      if (attempt.outcome == AttemptOutcome::hook) {
        report.attempts.push_back(hook_attempt(attempt));
        continue;
      }
      RuleOutcome outcome = RuleOutcome::dry_run;
      if (attempt.outcome == AttemptOutcome::not_needed) {
        outcome = RuleOutcome::held;
      } else if (!attempt.file.empty()) {
        outcome = outcome_of_write(attempt);
      } else if (attempt.outcome != AttemptOutcome::dry) {
        outcome = outcomes_[reported_++];
      }
      report.attempts.push_back(
          {attempt.cgroup, outcome, std::string(attempt.file), attempt.value});
    }
    if (action.restart) {
      const bool dry = action.restart->dry;
      const RuleOutcome outcome = dry ? RuleOutcome::dry_run : outcomes_[reported_++];
      report.attempts.push_back({{}, outcome, {}, 0, action.restart->service});
    }
    return report;
  }

  const std::vector<rulesets::Ruleset>& rulesets_;
  const Observation& observation_;
  const rulesets::RuleObservation& rules_;
  KillRate rate_;
  const bool dry_run_;
  std::vector<rulesets::PrekillHook> hooks_;
  rulesets::RuleConfig program_;
  std::vector<std::pair<std::string, std::string>>
      hook_lines_;  // by victim, of hooks that only log
  bool busy_ = false;
  std::optional<Exclusions> exclusions_;
  std::vector<RuleOutcome> outcomes_;  // of the kills and restarts that were wanted, in order
  std::size_t reported_ = 0;
  std::vector<Candidate> tried_;
  bool has_victim_ = false;
  bool restarts_ = false;                       // or would in a dry run
  bool waits_for_hook_ = false;                 // a kill that this step requested a hook for
  std::string resumed_;                         // the victim of a kill that waited for a hook
  std::set<std::string, std::less<>> refused_;  // cgroups whose settings stay as they are
};

// A pause that followed a kill which did not begin is void.
rulesets::RuleState taken_over(const State& state, const Observation& observation) {
  rulesets::RuleState rules = state.rules ? *state.rules : rulesets::RuleState();
  if (!state.rule_kill) return rules;
  const State::UnconfirmedRuleKill& decided = *state.rule_kill;
  const bool begun = std::ranges::any_of(observation.kills, [&](const KillProgress& kill) {
    return kill.cgroup == decided.victim && kill.state != KillState::failed &&
           kill.started >= decided.at;
  });
  const auto ruleset = rules.rulesets.find(decided.ruleset);
  if (!begun && ruleset != rules.rulesets.end()) ruleset->second.pause_until.reset();
  return rules;
}

// The group of detectors that began the chain: after a hook, none may fire any more.
std::string group_of(const rulesets::RuleDecision& decided, const std::string& victim) {
  const auto kill = std::ranges::find_if(decided.kills, [&](const rulesets::RuleKill& each) {
    return each.cgroup == victim && !each.dry;
  });
  return kill == decided.kills.end() ? std::string() : kill->group;
}

Eviction eviction_by(const RuleReport& ruleset, const std::string& group, std::size_t candidate) {
  Eviction eviction;
  eviction.candidate = candidate;
  eviction.cause = EvictionCause::ruleset;
  eviction.at_once = true;
  eviction.message = "The ruleset " + ruleset.name + " selected it";
  if (!group.empty()) eviction.message += ": " + group;
  eviction.message += ".";
  return eviction;
}

}  // namespace

void apply_rules(const Config& config, const State& state, const Observation& observation,
                 State& next, Decision& decision) {
  next.rules = state.rules;
  next.rule_kill = state.rule_kill;
  if (!config.rules || !observation.rules) return;
  RulePass pass(config, observation, decision);
  auto step = pass.evaluate(taken_over(state, observation));
  if (!step) {
    decision.action = Action::inspect;
    decision.reason = Reason::workloads_unread;
    decision.driving.reset();
    decision.considered.clear();
    decision.damage.reset();
    return;
  }
  next.rules = std::move(step->state);
  next.rule_kill.reset();
  pass.report(step->decision, decision);
  if (!pass.kills()) return;
  if (decision.action == Action::inspect) next.read = state.read;  // the thresholds wait
  const RuleReport& ruleset = decision.rulesets[*decision.ruleset];
  decision.action = Action::kill;
  decision.reason = Reason::ruleset;
  decision.driving.reset();
  decision.damage.reset();
  decision.considered = std::move(pass.tried());
  const std::size_t victim = decision.considered.size() - 1;
  const std::string group =
      group_of(step->decision, decision.considered[victim].sample.workload.path);
  decision.evictions = {eviction_by(ruleset, group, victim)};
  next.rule_kill = State::UnconfirmedRuleKill{decision.considered[victim].sample.workload.cgroup,
                                              pass.id_of(ruleset.name), observation.at};
}

}  // namespace forestall::policy
