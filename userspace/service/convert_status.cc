// SPDX-License-Identifier: Apache-2.0
#include "service/convert_status.h"

#include <algorithm>
#include <cmath>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::service {
namespace {

using messages::to_enum;
using messages::to_proto;

v1::StageSummary to_proto(const exports::StageSummary& summary) {
  v1::StageSummary out;
  out.set_stage(std::string(to_string(summary.stage)));
  out.set_count(summary.count);
  out.set_p50_ns(summary.p50.count());
  out.set_p90_ns(summary.p90.count());
  out.set_p99_ns(summary.p99.count());
  out.set_max_ns(summary.max.count());
  return out;
}

v1::LoopStretches to_proto(const exports::LoopWorkTally& tally) {
  v1::LoopStretches out;
  out.set_stretches(tally.stretches());
  out.set_longest_ns(tally.longest().count());
  for (std::size_t i = 0; i < exports::kLoopWorkCount; ++i) {
    const auto work = static_cast<exports::LoopWork>(i);
    const auto summary = tally.summary(work);
    v1::LoopStretches::Work& each = *out.add_work();
    each.set_work(std::string(to_string(work)));
    each.set_longest_ns(summary.longest.count());
    each.set_in_longest_ns(summary.in_longest.count());
    each.set_total_ns(summary.total.count());
  }
  return out;
}

v1::StatusDecision to_proto(const exports::StatusDecision& decision) {
  v1::StatusDecision out;
  out.set_sequence(decision.sequence);
  out.mutable_wall_time()->set_seconds(decision.wall_time_ns / 1'000'000'000);
  out.mutable_wall_time()->set_nanos(
      static_cast<std::int32_t>(decision.wall_time_ns % 1'000'000'000));
  out.set_action(messages::to_proto(decision.action));
  out.set_reason(messages::to_proto(decision.reason));
  out.set_by_kernel(decision.by_kernel);
  if (!decision.subject.empty()) out.set_subject(text::to_utf8(decision.subject));
  if (!decision.victim.empty()) out.set_victim(text::to_utf8(decision.victim));
  out.set_dry_run(decision.dry_run);
  if (decision.state) out.set_state(to_enum<v1::KillProgress::State>(*decision.state));
  out.set_freed_bytes(decision.freed.count);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    if (!decision.stages[i]) continue;
    v1::StageLength* stage = out.add_stages();
    stage->set_stage(std::string(to_string(static_cast<Stage>(i))));
    stage->set_length_ns(decision.stages[i]->count());
  }
  return out;
}

v1::RulesetStatus to_proto(const exports::RulesetCounts& counts, MonotonicTime now) {
  v1::RulesetStatus out;
  out.set_name(text::to_utf8(counts.name));
  out.set_fired(counts.fired);
  if (counts.last_fired) out.set_last_fired_ago_ns((now - *counts.last_fired).count());
  out.set_last_group(text::to_utf8(counts.last_group));
  out.set_paused(counts.paused);
  for (std::size_t i = 0; i < exports::kRuleOutcomeCount; ++i) {
    if (counts.attempts[i] == 0) continue;
    v1::RulesetStatus::Attempts& attempts = *out.add_attempts();
    attempts.set_outcome(to_enum<v1::RulesetRun::Outcome>(static_cast<RuleOutcome>(i)));
    attempts.set_count(counts.attempts[i]);
  }
  return out;
}

v1::ThresholdDistance distance(const Evidence& evidence, std::optional<double> seconds) {
  v1::ThresholdDistance out;
  out.set_headroom(evidence.available - evidence.limit.value());
  constexpr double kNsMax = 9e18;
  if (seconds) out.set_time_to_threshold_ns(std::llround(std::min(*seconds * 1e9, kNsMax)));
  return out;
}

v1::PodFactCounts to_proto(const exports::PodFactCounts& counts) {
  v1::PodFactCounts out;
  out.set_known(counts.known);
  out.set_inferred(counts.inferred);
  out.set_may_be_critical(counts.may_be_critical);
  const exports::AnnotationCounts& annotations = counts.annotations;
  out.set_annotated(annotations.annotated);
  if (annotations.usage) out.set_annotated_usage_bytes(annotations.usage->count);
  out.set_preferred(annotations.preferred);
  out.set_avoided(annotations.avoided);
  for (const PodAnnotationProblem& each : annotations.problems) {
    v1::PodAnnotationProblem& problem = *out.add_annotation_problems();
    problem.set_pod(text::to_utf8(each.pod));
    problem.set_annotation(std::string(each.annotation));
    problem.set_value(text::to_utf8(each.value));
    problem.set_problem(std::string(each.problem));
  }
  out.set_annotation_problems_left_out(annotations.problems_left_out);
  return out;
}

v1::NextVictim to_proto(const NextVictim& next, MonotonicTime now) {
  v1::NextVictim out;
  out.set_subject(text::to_utf8(next.subject));
  out.set_signal(std::string(to_string(next.signal)));
  if (next.ranked_at) out.set_ranking_age_ns((now - *next.ranked_at).count());
  if (next.candidate) *out.mutable_candidate() = messages::to_proto(*next.candidate);
  if (!next.before_next_by.empty()) out.set_before_next_by(next.before_next_by);
  if (next.held_back) out.set_held_back(to_proto(*next.held_back));
  return out;
}

void add_status(const exports::Status& status, MonotonicTime now, v1::AgentStatus& out) {
  if (status.config) *out.mutable_config() = messages::to_proto(*status.config);
  if (status.next_evaluation)
    out.set_next_evaluation_in_ns((*status.next_evaluation - now).count());
  for (const Evidence& each : status.evidence) *out.add_thresholds() = messages::to_proto(each);
  for (std::size_t i = 0; i < status.evidence.size(); ++i) {
    *out.add_distances() = distance(status.evidence[i], status.seconds_to_threshold[i]);
  }
  for (const NextVictim& each : status.next_victims) *out.add_next_victims() = to_proto(each, now);
  out.set_thresholds_left_out(status.evidence_left_out);
  for (const ConditionStatus& each : status.conditions) {
    *out.add_conditions() = messages::to_proto(each);
  }
  if (status.next_evaluation) {
    *out.mutable_pods() = to_proto(status.pods);
  }
  for (const auto& each : status.decisions) *out.add_decisions() = to_proto(each);
  for (const auto& each : status.rulesets) *out.add_rulesets() = to_proto(each, now);
}

}  // namespace

v1::AgentStatus to_proto(const AgentFacts& facts, const exports::Status& status,
                         const exports::StageHistograms& stages, const exports::LoopCounts& counts,
                         const exports::DropCounts& drops, const wire::GrpcCounts& grpc,
                         MonotonicTime now) {
  v1::AgentStatus out;
  out.set_version(facts.version);
  out.set_pid(facts.pid);
  out.set_uptime_ns((now - facts.started).count());
  out.set_kernel(text::to_utf8(facts.kernel));
  out.set_tier(to_proto(facts.tier));
  for (const FeatureReport& each : facts.features) *out.add_features() = to_proto(each);
  out.set_config_origin(text::to_utf8(facts.config_origin));
  out.set_evaluations(counts.evaluations);
  out.set_kills(counts.kills);
  out.set_dry_run_kills(counts.dry_run_kills);
  out.set_kernel_oom_kills(counts.kernel_oom_kills);
  out.set_rule_settings_not_undone(counts.rule_settings_not_undone);
  for (const exports::RulesetReclaimCounts& each : counts.reclaims.all()) {
    v1::ReclaimedCgroup& added = *out.add_reclaimed();
    added.set_ruleset(text::to_utf8(each.ruleset));
    added.set_cgroup(text::to_utf8(each.cgroup));
    added.set_writes(each.writes);
    added.set_reclaimed_bytes(static_cast<std::uint64_t>(each.reclaimed.count));
    added.set_failures(each.failures);
    added.set_back_offs(each.back_offs);
    added.set_dropped(each.dropped);
  }
  add_status(status, now, out);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    *out.add_stages() = to_proto(stages.summary(static_cast<Stage>(i)));
  }
  *out.mutable_loop() = to_proto(counts.work);
  v1::Drops& lost = *out.mutable_drops();
  lost.set_log_lines(drops.log_lines());
  lost.set_bpf_events(drops.bpf.sum_of("dropped"));
  lost.set_bpf_failures(drops.bpf.sum_of("failures"));
  lost.set_late_oom_events(drops.late_oom_events);
  lost.set_recording_entries(drops.recording_entries);
  lost.set_watch_messages(drops.dropped);
  lost.set_slow_readers(grpc.slow_readers);
  lost.set_live_viewers(drops.live_viewers);
  for (const BpfCounter& each : drops.bpf.all()) *out.add_bpf_counters() = to_proto(each);
  return out;
}

}  // namespace forestall::service
