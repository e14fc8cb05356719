// SPDX-License-Identifier: Apache-2.0
// One step of the policy: assess the thresholds; if one drives, rank and choose.
#include "policy/step.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "policy/exclusion.h"
#include "policy/rank.h"
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

// Chooses a victim for the first crossing that can have one. A subject whose memory is on its way
// waits for it without holding up the others, and so does one whose candidates are all spent: a
// slow kill in one cgroup must not delay a kill in another (peers.md §4 items 4 and 15).
// When nobody can be killed, the decision shows the candidates of the first crossing in need.
void choose(const Config& config, const Observation& observation,
            const std::vector<Crossing>& crossings, Decision& decision) {
  const std::vector<WorkloadSample>& workloads = *observation.workloads;
  const Exclusions exclusions(workloads, observation.kills);
  bool shown = false;
  for (const Crossing& crossing : crossings) {
    if (crossing.covered) continue;
    const Evidence& evidence = decision.evidence[crossing.evidence];
    const RankBy by{evidence.threshold.signal, observation.filesystems.layout, config.compat};
    auto candidates = rank(workloads, by, subject_of(evidence), exclusions);
    const auto victim = first_killable(candidates);
    if (shown && !victim) continue;
    shown = true;
    decision.driving = crossing.evidence;
    decision.reason = candidates.empty() ? Reason::no_candidates : Reason::all_protected;
    decision.considered = std::move(candidates);
    if (!victim) continue;
    decision.action = Action::kill;
    decision.reason = Reason::threshold_met;
    Eviction eviction;
    eviction.candidate = *victim;
    eviction.at_once = true;
    decision.evictions.push_back(std::move(eviction));
    return;
  }
}

}  // namespace

Step step(const Config& config, const State& state, const Observation& observation) {
  Assessment assessment = assess(config, state, observation);
  Step result;
  Decision& decision = result.decision;
  result.state.driving = std::move(assessment.driving);
  decision.evidence = std::move(assessment.evidence);
  const std::vector<Crossing>& crossings = assessment.crossings;
  if (crossings.empty()) {
    decision.reason = decision.evidence.empty() ? Reason::no_data : Reason::no_threshold_met;
    return result;
  }
  const auto open = std::find_if(crossings.begin(), crossings.end(),
                                 [](const Crossing& crossing) { return !crossing.covered; });
  if (open == crossings.end()) {
    decision.reason = Reason::release_pending;
    decision.driving = crossings.front().evidence;
    return result;
  }
  if (!observation.workloads) {
    decision.action = Action::inspect;
    decision.reason = Reason::workloads_unread;
    decision.driving = open->evidence;
    return result;
  }
  choose(config, observation, crossings, decision);
  return result;
}

std::string_view inspection_subject(const Decision& decision) {
  if (decision.action != Action::inspect || !decision.driving) return {};
  const auto in_need = std::count_if(
      decision.evidence.begin(), decision.evidence.end(),
      [](const Evidence& evidence) { return evidence.met && evidence.threshold.hard(); });
  const Evidence& driving = decision.evidence[*decision.driving];
  if (in_need != 1 || driving.cgroup == CgroupId{}) return {};
  return driving.subject;
}

}  // namespace forestall::policy
