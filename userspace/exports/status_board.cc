// SPDX-License-Identifier: Apache-2.0
#include "exports/status_board.h"

#include <algorithm>
#include <cstring>

namespace forestall::exports {
namespace {

StatusDecision to_decision(const Record& record) {
  StatusDecision reported;
  reported.sequence = record.sequence;
  reported.wall_time_ns = record.wall_time_ns;
  reported.action = record.decision.action;
  reported.reason = record.decision.reason;
  if (record.decision.driving) {
    reported.subject = record.decision.evidence[*record.decision.driving].subject;
  }
  if (record.oom_kill) {
    const auto& name = record.oom_kill->event.comm;
    reported.by_kernel = true;
    reported.victim.assign(name.data(), strnlen(name.data(), name.size()));
    return reported;
  }
  if (const auto victim = record.decision.victim()) {
    reported.victim = record.decision.considered[*victim].sample.workload.name;
  }
  reported.stages = stage_lengths(record);
  if (record.outcome) {
    // A dry run signals nothing, so nothing is in flight.
    if (!record.outcome->dry_run) reported.state = record.outcome->state;
    reported.dry_run = record.outcome->dry_run;
    reported.freed = record.outcome->freed;
  }
  return reported;
}

}  // namespace

void StatusBoard::write(const Record& record) {
  StatusDecision reported = to_decision(record);
  const auto same = std::ranges::find(decisions_, reported.sequence, &StatusDecision::sequence);
  if (same != decisions_.end()) {
    *same = std::move(reported);  // its outcome
  } else {
    decisions_.push_back(std::move(reported));
    if (decisions_.size() > kDecisionsMax) decisions_.pop_front();
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) shared_.decisions = decisions_;
}

void StatusBoard::evaluated(const Evaluation& evaluation) {
  const auto& evidence = evaluation.decision.evidence;
  const std::size_t reported = std::min(evidence.size(), kEvidenceMax);
  // Also while a reader holds the lock: the history must not have gaps.
  std::vector<std::optional<double>> seconds;
  for (std::size_t i = 0; i < reported; ++i) {
    seconds.push_back(history_.seconds_to_threshold(evidence[i]));
  }
  history_.drop_unseen();
  rulesets_.evaluated(evaluation);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  shared_.seconds_to_threshold = std::move(seconds);
  shared_.next_evaluation = evaluation.next;
  shared_.config = config_;
  shared_.evidence.assign(evidence.begin(),
                          evidence.begin() + static_cast<std::ptrdiff_t>(reported));
  shared_.evidence_left_out = evidence.size() - reported;
  shared_.conditions = evaluation.decision.conditions;
  shared_.pods = evaluation.pods;
  shared_.next_victims = next_victims_;
  shared_.decisions = decisions_;
  shared_.rulesets = rulesets_.all();
}

void StatusBoard::pre_ranked(std::span<const NextVictim> next_victims) {
  next_victims_.assign(next_victims.begin(), next_victims.end());
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) shared_.next_victims = next_victims_;
}

void StatusBoard::set_config(const Config& config) {
  config_ = std::make_shared<const Config>(config);
  rulesets_.configured(config);
}

Status StatusBoard::status() const {
  const std::lock_guard lock(mutex_);
  return shared_;
}

std::vector<RulesetCounts> StatusBoard::rulesets() const {
  const std::lock_guard lock(mutex_);
  return shared_.rulesets;
}

}  // namespace forestall::exports
