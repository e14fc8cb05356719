// SPDX-License-Identifier: Apache-2.0
#include "exports/status_board.h"

#include <algorithm>
#include <cstring>

namespace forestall::exports {
namespace {

StatusDecision to_decision(const Record& record) {
  StatusDecision told;
  told.sequence = record.sequence;
  told.wall_time_ns = record.wall_time_ns;
  told.action = record.decision.action;
  told.reason = record.decision.reason;
  if (record.decision.driving) {
    told.subject = record.decision.evidence[*record.decision.driving].subject;
  }
  if (record.oom_kill) {
    const auto& name = record.oom_kill->sighting.comm;
    told.by_kernel = true;
    told.victim.assign(name.data(), strnlen(name.data(), name.size()));
    return told;
  }
  if (const auto victim = record.decision.victim()) {
    told.victim = record.decision.considered[*victim].sample.workload.name;
  }
  told.stages = stage_lengths(record);
  if (record.outcome) {
    told.state = record.outcome->state;
    told.dry_run = record.outcome->dry_run;
    told.freed = record.outcome->freed;
  }
  return told;
}

}  // namespace

void StatusBoard::write(const Record& record) {
  StatusDecision told = to_decision(record);
  const auto same = std::ranges::find(decisions_, told.sequence, &StatusDecision::sequence);
  if (same != decisions_.end()) {
    *same = std::move(told);  // its outcome
  } else {
    decisions_.push_back(std::move(told));
    if (decisions_.size() > kDecisionsMax) decisions_.pop_front();
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) shared_.decisions = decisions_;
}

void StatusBoard::looked(const Look& look) {
  ++looks_;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  shared_.looks = looks_;
  shared_.next_look = look.next;
  shared_.config = config_;
  const auto& evidence = look.decision.evidence;
  const std::size_t told = std::min(evidence.size(), kEvidenceMax);
  shared_.evidence.assign(evidence.begin(), evidence.begin() + static_cast<std::ptrdiff_t>(told));
  shared_.evidence_left_out = evidence.size() - told;
  shared_.conditions = look.decision.conditions;
  shared_.decisions = decisions_;
}

void StatusBoard::set_config(const Config& config) {
  config_ = std::make_shared<const Config>(config);
}

Status StatusBoard::status() const {
  const std::lock_guard lock(mutex_);
  return shared_;
}

}  // namespace forestall::exports
