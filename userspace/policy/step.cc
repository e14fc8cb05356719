// SPDX-License-Identifier: Apache-2.0
// One step of the policy: assess the thresholds; check the limits on local storage; then act on the
// first actionable crossing; then evaluate the rulesets.
#include "policy/step.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "policy/cleanup.h"
#include "policy/conditions.h"
#include "policy/damage_limit.h"
#include "policy/eviction_notice.h"
#include "policy/exclusion.h"
#include "policy/grace.h"
#include "policy/growth_since_kill.h"
#include "policy/node_reclaim.h"
#include "policy/pressure_evictions.h"
#include "policy/rank.h"
#include "policy/rules.h"
#include "policy/saturating.h"
#include "policy/storage_limits.h"
#include "policy/thresholds.h"

namespace forestall::policy {
namespace {

std::optional<std::size_t> first_killable(const std::vector<Candidate>& candidates) {
  const auto found = std::find_if(
      candidates.begin(), candidates.end(),
      [](const Candidate& candidate) { return candidate.exclusion == Exclusion::none; });
  if (found == candidates.end()) return std::nullopt;
  return static_cast<std::size_t>(found - candidates.begin());
}

Subject subject_of(const Evidence& evidence) {
  if (evidence.cgroup == CgroupId{}) return Subject{};
  return Subject{evidence.cgroup, evidence.subject};
}

bool is_pod(const WorkloadSample& sample) {
  return sample.workload.kind == WorkloadKind::pod;
}

template <typename Entry>
void replace(std::vector<Entry>& entries, Entry entry) {
  std::erase_if(entries, [&](const Entry& each) { return each.id == entry.id; });
  entries.push_back(std::move(entry));
  std::ranges::sort(entries, {}, &Entry::id);
}

// What the state remembers of kills, renewed if the kill that the last step decided has begun.
void take_over_kills(const Config& config, const State& state, const Observation& observation,
                     State& next) {
  const auto is_recent = [&](MonotonicTime at) {
    return elapsed(at, observation.at) < config.kill_limit.window;
  };
  std::ranges::copy_if(state.series, std::back_inserter(next.series),
                       [&](const auto& series) { return is_recent(series.began); });
  std::ranges::copy_if(state.holdings, std::back_inserter(next.holdings),
                       [&](const auto& each) { return is_recent(each.at); });
  if (!state.decided) return;
  const auto begun = std::ranges::find_if(observation.kills, [&](const KillProgress& kill) {
    return kill.cgroup == state.decided->victim && kill.state != KillState::failed &&
           kill.started >= state.at;
  });
  if (begun == observation.kills.end() || !is_recent(begun->started)) return;
  if (state.decided->series) replace(next.series, *state.decided->series);
  if (!state.decided->holdings) return;
  State::Holdings holdings = *state.decided->holdings;
  holdings.at = std::max(holdings.at, begun->started);
  replace(next.holdings, std::move(holdings));
}

// Handles the crossings of one step.
class Pass {
 public:
  Pass(const Config& config, const Observation& observation, State& next, Decision& decision)
      : config_(config), observation_(observation), next_(next), decision_(decision) {}

  // Kubelet handles only the first threshold. Here a threshold that has to wait, or has no killable
  // candidates, is skipped for the next one: a slow kill in one cgroup must not delay a kill in
  // another. If nothing can be killed, the decision shows the candidates of the first crossing in
  // need.
  void run(const std::vector<Crossing>& crossings, bool computed) {
    if (evict_for_storage_limits()) return;
    for (const Crossing& crossing : crossings) {
      if (act_on(crossing)) return;
    }
    if (!crossings.empty()) return;
    const auto any_met = [&](bool evicts) {
      return std::any_of(
          decision_.evidence.begin(), decision_.evidence.end(), [&](const Evidence& one) {
            return one.first_met && (one.threshold.response == Response::evict) == evicts;
          });
    };
    if (any_met(true)) {
      decision_.reason = Reason::in_grace;
    } else if (any_met(false)) {
      decision_.reason = Reason::own_limit_near;
    } else {
      decision_.reason = computed ? Reason::no_threshold_met : Reason::no_data;
    }
  }

 private:
  // Statistics outlive their pod: a recently killed pod is not killed again for what it had
  // written.
  std::vector<KillProgress> recent_kills() const {
    std::vector<KillProgress> kills = observation_.kills;
    for (KillProgress& kill : kills) {
      const bool of_late = elapsed(kill.started, observation_.at) < kCleanupTimeout;
      if (kill.state == KillState::released && of_late) kill.state = KillState::in_flight;
    }
    return kills;
  }

  bool evict_for_storage_limits() {
    if (!config_.local_storage_isolation || !observation_.workloads ||
        !observation_.disk_usage_read) {
      return false;
    }
    const std::vector<KillProgress> kills = recent_kills();
    const Exclusions exclusions(*observation_.workloads, kills, Terminating::excluded);
    std::vector<Candidate> considered;
    std::vector<Eviction> evictions;
    storage_limit_evictions(config_, observation_, exclusions, considered, evictions);
    if (evictions.empty()) return false;
    decision_.action = Action::kill;
    decision_.reason = Reason::local_storage_limit;
    decision_.considered = std::move(considered);
    decision_.evictions = std::move(evictions);
    return true;
  }

  const Evidence& evidence(const Crossing& crossing) const {
    return decision_.evidence[crossing.evidence];
  }

  // Whether the step ends with this crossing.
  bool act_on(const Crossing& crossing) {
    if (const auto reason = must_wait(crossing)) {
      pass_over(crossing, *reason);
      return false;
    }
    const CleanupWait wait = cleanup_wait(config_, evidence(crossing), observation_);
    if (wait.until && (!next_.cleanup_until || *wait.until < *next_.cleanup_until)) {
      next_.cleanup_until = wait.until;
    }
    if (wait.pending) {
      pass_over(crossing, Reason::cleanup_pending);
      return false;
    }
    if (wait.unread) {
      request(crossing, Action::inspect, Reason::workloads_unread);
      return true;
    }
    const bool has_steps =
        !reclaim_steps(evidence(crossing).threshold.signal, next_.layout).empty();
    if (has_steps && observation_.reclaim != ReclaimState::unavailable) {
      if (const auto over = reclaim(crossing)) return *over;
    }
    return choose(crossing);
  }

  static std::optional<Reason> must_wait(const Crossing& crossing) {
    if (!crossing.newer) return Reason::statistics_not_newer;
    if (crossing.covered) return Reason::release_pending;
    return std::nullopt;
  }

  // Whether the step ends with node-level reclaim; nullopt: it was done and did not suffice.
  std::optional<bool> reclaim(const Crossing& crossing) {
    const bool is_same = next_.reclaim && next_.reclaim->id == crossing.id;
    // A reclaim that has just finished counts for all thresholds: those of one filesystem must not
    // request it in turns.
    const bool over =
        (is_same && next_.reclaim->done) || observation_.reclaim == ReclaimState::done;
    if (over) {
      if (!sufficed(config_, evidence(crossing), decision_.evidence)) return std::nullopt;
      next_.reclaim.reset();
      pass_over(crossing, Reason::node_reclaim_sufficed);
      return false;
    }
    if (observation_.reclaim == ReclaimState::running) {
      pass_over(crossing, Reason::node_reclaim);
      return false;
    }
    next_.reclaim = State::Reclaim{crossing.id, false};
    request(crossing, Action::reclaim, Reason::node_reclaim);
    return true;
  }

  // What has to be read before candidates can be ranked; nullopt: nothing.
  std::optional<Reason> unread(bool on_disk) const {
    if (!observation_.workloads) return Reason::workloads_unread;
    const bool has_pods =
        std::any_of(observation_.workloads->begin(), observation_.workloads->end(), is_pod);
    if (on_disk && !observation_.disk_usage_read && has_pods) return Reason::disk_usage_unread;
    return std::nullopt;
  }

  // Ranks the candidates and selects the victim. Whether the step ends with that.
  bool choose(const Crossing& crossing) {
    const Evidence& driving = evidence(crossing);
    const bool on_disk = filesystem_of(driving.threshold.signal).has_value();
    if (const auto reason = unread(on_disk)) {
      request(crossing, Action::inspect, *reason);
      return true;
    }
    std::vector<Candidate> candidates = ranked(driving, on_disk);
    const auto first = first_killable(candidates);
    if (next_.reclaim && next_.reclaim->id == crossing.id) next_.reclaim.reset();
    if (!first) {
      const Reason reason = candidates.empty() ? Reason::no_candidates : Reason::all_protected;
      if (is_new_reason(reason)) decision_.considered = std::move(candidates);
      pass_over(crossing, reason);
      return false;
    }
    const auto victim = limit_damage(crossing, candidates, *first);
    if (!victim) return false;
    decision_.driving = crossing.evidence;
    decision_.action = Action::kill;
    decision_.reason = Reason::threshold_met;
    decision_.considered = std::move(candidates);
    decision_.evictions.push_back(eviction(driving, *victim));
    return true;
  }

  template <typename Entry>
  static const Entry* entry_of(const std::vector<Entry>& entries, const ThresholdId& id) {
    const auto found = std::ranges::find(entries, id, &Entry::id);
    return found == entries.end() ? nullptr : &*found;
  }

  // The candidate to kill in place of the first killable one; the kill begins or continues the
  // series of its threshold. nullopt: facts or the kill limit forbid every kill (damage_limit.h),
  // so the crossing was passed over.
  std::optional<std::size_t> limit_damage(const Crossing& crossing,
                                          std::vector<Candidate>& candidates, std::size_t first) {
    const State::Series* series = entry_of(next_.series, crossing.id);
    const auto last_kill = last_kill_at(config_, evidence(crossing), observation_);
    const State::Holdings* holdings = entry_of(next_.holdings, crossing.id);
    // The guard, the watchdog or another threshold decided the last kill.
    if (holdings != nullptr && last_kill && holdings->at < *last_kill) holdings = nullptr;
    const DamageLimit limit(config_, evidence(crossing), observation_, candidates,
                            {series, holdings});
    const auto choice = limit.choose(first);
    State::Decided decided;
    if (last_kill && has_usage_line(threshold_of(crossing).signal)) {
      const bool unread = holdings == nullptr;
      if (unread || choice.victim) {
        decided.holdings =
            holdings_of(crossing.id, evidence(crossing), observation_.at, candidates);
      }
      if (unread) replace(next_.holdings, *decided.holdings);
    }
    if (choice.victim) {
      decision_.damage.reset();
      if (limit.facts().kills > 0) decision_.damage = limit.facts();
      if (series == nullptr && limit.facts().outside) {
        decided.series = {crossing.id, observation_.at, *limit.facts().outside};
      }
      decided.victim = candidates[*choice.victim].sample.workload.cgroup;
      if (decided.holdings || decided.series) next_.decided = std::move(decided);
      return choice.victim;
    }
    if (limit.until() && (!next_.held_until || *limit.until() < *next_.held_until)) {
      next_.held_until = limit.until();
    }
    if (is_new_reason(*choice.held)) {
      decision_.considered = std::move(candidates);
      decision_.damage = limit.facts();
    }
    pass_over(crossing, *choice.held);
    return std::nullopt;
  }

  const Threshold& threshold_of(const Crossing& crossing) const {
    return evidence(crossing).threshold;
  }

  std::vector<Candidate> ranked(const Evidence& driving, bool on_disk) {
    const std::vector<WorkloadSample>& workloads = *observation_.workloads;
    if (!exclusions_) exclusions_.emplace(workloads, observation_.kills);
    const RankBy by{driving.threshold.signal, next_.layout, config_.compat, config_.ranking};
    // Disk usage is known only for pods.
    if (on_disk && !std::all_of(workloads.begin(), workloads.end(), is_pod)) {
      std::vector<WorkloadSample> pods;
      std::copy_if(workloads.begin(), workloads.end(), std::back_inserter(pods), is_pod);
      return rank(pods, by, subject_of(driving), *exclusions_);
    }
    return rank(workloads, by, subject_of(driving), *exclusions_);
  }

  Eviction eviction(const Evidence& driving, std::size_t victim) const {
    const Candidate& candidate = decision_.considered[victim];
    Eviction eviction;
    eviction.candidate = victim;
    eviction.cause = EvictionCause::threshold;
    eviction.grace = eviction_grace(config_, driving.threshold, candidate.sample.workload);
    eviction.at_once = kills_at_once(config_, driving.threshold);
    write_notice(candidate, driving, decision_.evidence, eviction);
    return eviction;
  }

  void request(const Crossing& crossing, Action action, Reason reason) {
    decision_.driving = crossing.evidence;
    decision_.action = action;
    decision_.reason = reason;
    decision_.considered.clear();
    decision_.damage.reset();
  }

  bool is_new_reason(Reason reason) const {
    return !decision_.driving || weight_of(reason) > weight_of(decision_.reason);
  }

  // This crossing cannot be acted on now, for `reason`.
  void pass_over(const Crossing& crossing, Reason reason) {
    if (!is_new_reason(reason)) return;
    decision_.driving = crossing.evidence;
    decision_.reason = reason;
  }

  const Config& config_;
  const Observation& observation_;
  State& next_;
  Decision& decision_;
  std::optional<Exclusions> exclusions_;
};

// Whether the threshold that requested node-level reclaim still needs it. One that is no longer met
// resumes its pass once, when reclaim has finished, and gives way to any other action.
bool outlives(const State::Reclaim& reclaim, const std::vector<Crossing>& crossings,
              const Observation& observation, const State& next, Action action) {
  const auto mine = std::find_if(crossings.begin(), crossings.end(), [&](const Crossing& crossing) {
    return crossing.id == reclaim.id;
  });
  if (mine != crossings.end()) return !mine->resumed || action != Action::kill;
  if (std::binary_search(next.driving.begin(), next.driving.end(), reclaim.id)) return true;
  return !reclaim.done && observation.reclaim == ReclaimState::running;
}

}  // namespace

Step step(const Config& config, const State& state, const Observation& observation) {
  Assessment assessment = assess(config, state, observation);
  Step result{std::move(assessment.state), {}};
  State& next = result.state;
  Decision& decision = result.decision;
  decision.evidence = std::move(assessment.evidence);
  decision.conditions =
      report(assessment.pressure, config.pressure_transition, observation.at, next.conditions);
  take_over_kills(config, state, observation, next);
  Pass(config, observation, next, decision).run(assessment.crossings, assessment.computed);
  const bool is_decided = decision.action != Action::none;
  if (!is_decided) evict_for_pressure(config, observation, decision);
  apply_rules(config, state, observation, next, decision);
  if (decision.driving) {
    const Signal signal = decision.evidence[*decision.driving].threshold.signal;
    decision.node_reclaim = reclaim_steps(signal, next.layout);
  }
  if (next.reclaim &&
      !outlives(*next.reclaim, assessment.crossings, observation, next, decision.action)) {
    next.reclaim.reset();
  }
  // The pass continues when the requested data is there: its readings still count as new.
  if (decision.action == Action::inspect) next.read = state.read;
  return result;
}

std::string_view inspection_subject(const Decision& decision) {
  if (decision.action != Action::inspect || !decision.driving) return {};
  const auto in_need = std::count_if(
      decision.evidence.begin(), decision.evidence.end(),
      [](const Evidence& evidence) { return evidence.requires_eviction() && evidence.driving; });
  const Evidence& driving = decision.evidence[*decision.driving];
  if (in_need != 1 || driving.cgroup == CgroupId{}) return {};
  return driving.subject;
}

}  // namespace forestall::policy
