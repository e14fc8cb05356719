// SPDX-License-Identifier: Apache-2.0
#include "picture/recent_evaluations.h"

#include <algorithm>
#include <utility>

namespace forestall::picture {
namespace {

// The record of a kill follows its evaluation by seconds; other records follow theirs directly.
constexpr std::size_t kKillsKept = 1024;
constexpr std::size_t kOthersKept = 128;
// Of the subjects of a decision; a node may have a threshold per workload.
constexpr std::size_t kEvidenceKept = 16;

}  // namespace

Record RecentEvaluations::trimmed(const Record& record, std::uint64_t& left_out) const {
  Record kept;
  kept.sequence = record.sequence;
  kept.wall_time_ns = record.wall_time_ns;
  kept.observation.at = record.observation.at;
  kept.observation.wake = record.observation.wake;
  kept.stages = record.stages;
  kept.outcome = record.outcome;
  kept.oom_kill = record.oom_kill;
  kept.prepared = record.prepared;
  Decision& decision = kept.decision;
  const auto& all = record.decision.considered;
  std::size_t reported = std::min(candidates_, all.size());
  for (const Eviction& each : record.decision.evictions) {
    if (each.candidate < all.size()) reported = std::max<std::size_t>(reported, each.candidate + 1);
  }
  left_out = all.size() - reported;
  decision.action = record.decision.action;
  decision.reason = record.decision.reason;
  // Met thresholds come first.
  const auto& evidence = record.decision.evidence;
  const std::size_t driving = record.decision.driving.value_or(0);
  const std::size_t shown = std::min(evidence.size(), std::max(kEvidenceKept, driving + 1));
  decision.evidence.assign(evidence.begin(), evidence.begin() + static_cast<std::ptrdiff_t>(shown));
  decision.driving = record.decision.driving;
  decision.considered.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(reported));
  for (Candidate& each : decision.considered) {
    each.sample.workload.pod.reset();
    each.sample.statistics.reset();
  }
  if (kept.outcome) kept.outcome->victim.pod.reset();
  decision.evictions = record.decision.evictions;
  decision.node_reclaim = record.decision.node_reclaim;
  decision.conditions = record.decision.conditions;
  return kept;
}

void RecentEvaluations::add(std::uint64_t number, const Record& evaluated) {
  const bool kills = evaluated.decision.action == Action::kill;
  auto& seen = kills ? kills_ : others_;
  if (seen.size() == (kills ? kKillsKept : kOthersKept)) seen.pop_front();
  Seen& added = seen.emplace_back();
  added.number = number;
  added.evaluated = trimmed(evaluated, added.left_out);
}

void RecentEvaluations::forget() {
  kills_.clear();
  others_.clear();
}

const RecentEvaluations::Seen* RecentEvaluations::find(std::uint64_t number) const {
  for (const auto* seen : {&kills_, &others_}) {
    const auto found = std::ranges::lower_bound(*seen, number, {}, &Seen::number);
    if (found != seen->end() && found->number == number) return &*found;
  }
  return nullptr;
}

Record RecentEvaluations::completed(std::uint64_t number, const Record& record,
                                    std::uint64_t& left_out) const {
  Record shown = trimmed(record, left_out);
  const Seen* seen = number == 0 ? nullptr : find(number);
  if (seen == nullptr) return shown;
  // The record's own evictions are kept: it is about one of them.
  auto evictions = std::move(shown.decision.evictions);
  shown.decision = seen->evaluated.decision;
  shown.decision.evictions = std::move(evictions);
  shown.observation = seen->evaluated.observation;
  shown.stages = seen->evaluated.stages;
  shown.prepared = seen->evaluated.prepared;
  left_out = seen->left_out;
  return shown;
}

}  // namespace forestall::picture
