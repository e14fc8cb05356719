// SPDX-License-Identifier: Apache-2.0
// Decisions: evidence, candidates, evictions and conditions.
#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

Result<EvictionCause> cause_of(const std::string& word) {
  if (word.empty()) return EvictionCause::threshold;
  for (const EvictionCause cause :
       {EvictionCause::threshold, EvictionCause::empty_dir_limit, EvictionCause::pod_storage_limit,
        EvictionCause::container_storage_limit, EvictionCause::ruleset,
        EvictionCause::high_pressure, EvictionCause::max_pressure, EvictionCause::psi_pressure}) {
    if (to_string(cause) == word) return cause;
  }
  return error("cause: unknown '" + word + "'");
}

Result<Evidence> from_proto(const v1::Evidence& message) {
  Evidence evidence;
  evidence.threshold = TRY(inside("threshold", messages::from_proto(message.threshold())));
  evidence.subject = message.subject();
  if (message.has_cgroup_id()) evidence.cgroup.inode = message.cgroup_id();
  evidence.capacity = message.capacity();
  evidence.available = message.available();
  if (message.limit_quantity().empty()) {
    evidence.limit = binary(message.limit());
  } else {
    evidence.limit = TRY(inside("limitQuantity", parse_quantity(message.limit_quantity())));
  }
  evidence.pending_release = message.pending_release();
  evidence.met = message.met();
  evidence.at = from_ns(message.at_ns());
  if (message.has_first_met_ns()) evidence.first_met = from_ns(message.first_met_ns());
  evidence.driving = message.driving();
  return evidence;
}

Result<RankKey> from_proto(const v1::RankKey& message) {
  const Preference preference = TRY(from_enum_or(message.preference(), v1::Workload::Preference_MAX,
                                                 "preference", Preference::normal));
  return RankKey{.measured = message.measured(),
                 .exceeds_request = message.exceeds_request(),
                 .priority = message.priority(),
                 .usage = message.usage(),
                 .request = message.request(),
                 .over_request = message.over_request(),
                 .badness = message.has_badness() ? std::optional(message.badness()) : std::nullopt,
                 .growth = message.has_growth() ? std::optional(message.growth()) : std::nullopt,
                 .priority_unknown = message.priority_unknown(),
                 .preference = preference};
}

Result<void> read_rank(const v1::Candidate& message, Candidate& candidate) {
  candidate.key = TRY(inside("key", from_proto(message.key())));
  candidate.exclusion = TRY(from_enum_or(message.exclusion(), v1::Candidate::Exclusion_MAX,
                                         "exclusion", Exclusion::none));
  return {};
}

Result<Candidate> from_proto(const v1::Candidate& message) {
  Candidate candidate;
  candidate.sample = TRY(inside("sample", sample_from_proto(message.sample(), kDefaultPodsCgroup)));
  TRY(read_rank(message, candidate));
  return candidate;
}

Result<Eviction> from_proto(const v1::Eviction& message, std::uint32_t candidates) {
  Eviction eviction;
  if (message.candidate() >= candidates) {
    return error("candidate: there is no considered[" + std::to_string(message.candidate()) + "]");
  }
  eviction.candidate = message.candidate();
  eviction.cause = TRY(cause_of(message.cause()));
  eviction.grace = Duration(message.grace_ns());
  eviction.at_once = message.at_once();
  eviction.message = message.message();
  for (const v1::Eviction::Annotation& each : message.annotations()) {
    eviction.annotations.emplace_back(each.name(), each.value());
  }
  eviction.disruption_target = message.disruption_target();
  eviction.metric_signal = message.metric_signal();
  return eviction;
}

Result<void> read_conditions(const v1::Decision& message, Conditions& conditions) {
  std::array<bool, kConditions.size()> given{};
  for (const v1::ConditionStatus& each : message.conditions()) {
    const std::optional<Condition> condition = parse_condition(each.type());
    if (!condition) return error("conditions: unknown '" + each.type() + "'");
    const auto i = static_cast<std::size_t>(*condition);
    if (std::exchange(given[i], true)) return error("conditions: '" + each.type() + "' twice");
    conditions[i].status = each.status();
    conditions[i].changed = each.changed();
    if (each.has_last_met_ns()) conditions[i].last_met = from_ns(each.last_met_ns());
  }
  return {};
}

// Checks indices that refer to other parts of the message.
Result<void> check_indices(const v1::Decision& message) {
  if (message.has_driving() &&
      message.driving() >= static_cast<std::uint32_t>(message.evidence_size())) {
    return error("driving: there is no evidence[" + std::to_string(message.driving()) + "]");
  }
  if (message.has_ruleset() &&
      message.ruleset() >= static_cast<std::uint32_t>(message.rulesets_size())) {
    return error("ruleset: there is no rulesets[" + std::to_string(message.ruleset()) + "]");
  }
  if (message.has_victim() &&
      (message.evictions().empty() || message.evictions(0).candidate() != message.victim())) {
    return error("victim: is not the candidate of the first eviction");
  }
  return {};
}

}  // namespace

v1::Eviction to_proto(const Eviction& eviction) {
  v1::Eviction out;
  out.set_candidate(static_cast<std::uint32_t>(eviction.candidate));
  out.set_cause(std::string(to_string(eviction.cause)));
  out.set_grace_ns(eviction.grace.count());
  out.set_at_once(eviction.at_once);
  out.set_message(text::to_utf8(eviction.message));
  for (const auto& [name, value] : eviction.annotations) {
    v1::Eviction::Annotation& added = *out.add_annotations();
    added.set_name(text::to_utf8(name));
    added.set_value(text::to_utf8(value));
  }
  out.set_disruption_target(eviction.disruption_target);
  out.set_metric_signal(text::to_utf8(eviction.metric_signal));
  return out;
}

Result<void> read_evictions(const v1::Decision& message, std::uint32_t candidates,
                            std::vector<Eviction>& evictions) {
  return read_each(message.evictions(), evictions, "evictions",
                   [&](const v1::Eviction& each) { return from_proto(each, candidates); });
}

v1::Decision::Action to_proto(Action action) {
  return to_enum<v1::Decision::Action>(action);
}

v1::Decision::Reason to_proto(Reason reason) {
  return to_enum<v1::Decision::Reason>(reason);
}

v1::ConditionStatus to_proto(const ConditionStatus& status) {
  v1::ConditionStatus out;
  out.set_type(std::string(to_string(status.condition)));
  out.set_status(status.status);
  out.set_changed(status.changed);
  if (status.last_met) out.set_last_met_ns(to_ns(*status.last_met));
  out.set_reason(std::string(condition_reason(status.condition, status.status)));
  out.set_message(std::string(condition_message(status.condition, status.status)));
  out.set_event(std::string(condition_event(status.condition, status.status)));
  return out;
}

v1::Evidence to_proto(const Evidence& evidence) {
  v1::Evidence out;
  *out.mutable_threshold() = to_proto(evidence.threshold);
  out.set_subject(text::to_utf8(evidence.subject));
  if (evidence.cgroup.inode != 0) out.set_cgroup_id(evidence.cgroup.inode);
  out.set_capacity(evidence.capacity);
  out.set_available(evidence.available);
  out.set_limit(evidence.limit.value());
  out.set_limit_quantity(evidence.limit.text());
  out.set_pending_release(evidence.pending_release);
  out.set_met(evidence.met);
  out.set_at_ns(to_ns(evidence.at));
  if (evidence.first_met) out.set_first_met_ns(to_ns(*evidence.first_met));
  out.set_driving(evidence.driving);
  return out;
}

void put_rank(const Candidate& candidate, v1::Candidate& out) {
  v1::RankKey& key = *out.mutable_key();
  key.set_measured(candidate.key.measured);
  key.set_exceeds_request(candidate.key.exceeds_request);
  key.set_priority(candidate.key.priority);
  key.set_usage(candidate.key.usage);
  key.set_request(candidate.key.request);
  key.set_over_request(candidate.key.over_request);
  if (candidate.key.badness) key.set_badness(*candidate.key.badness);
  if (candidate.key.growth) key.set_growth(*candidate.key.growth);
  if (candidate.key.priority_unknown) key.set_priority_unknown(true);
  if (candidate.key.preference != Preference::normal) {
    key.set_preference(to_enum<v1::Workload::Preference>(candidate.key.preference));
  }
  out.set_exclusion(to_enum<v1::Candidate::Exclusion>(candidate.exclusion));
}

v1::Candidate to_proto(const Candidate& candidate) {
  v1::Candidate out;
  *out.mutable_sample() = to_proto(candidate.sample);
  put_rank(candidate, out);
  return out;
}

void put_without_candidates(const Decision& decision, v1::Decision& out) {
  out.set_action(to_proto(decision.action));
  out.set_reason(to_proto(decision.reason));
  for (const Evidence& evidence : decision.evidence) *out.add_evidence() = to_proto(evidence);
  if (decision.driving) out.set_driving(static_cast<std::uint32_t>(*decision.driving));
  if (const auto victim = decision.victim()) out.set_victim(static_cast<std::uint32_t>(*victim));
  for (const Eviction& eviction : decision.evictions) *out.add_evictions() = to_proto(eviction);
  for (const ReclaimStep step : decision.node_reclaim) {
    out.add_node_reclaim(to_enum<v1::Decision::ReclaimStep>(step));
  }
  for (const ConditionStatus& status : decision.conditions) {
    *out.add_conditions() = to_proto(status);
  }
  if (decision.damage) *out.mutable_damage() = messages::to_proto(*decision.damage);
  for (const RuleReport& each : decision.rulesets) *out.add_rulesets() = messages::to_proto(each);
  if (decision.ruleset) out.set_ruleset(static_cast<std::uint32_t>(*decision.ruleset));
}

v1::Decision to_proto(const Decision& decision) {
  v1::Decision out;
  put_without_candidates(decision, out);
  for (const Candidate& candidate : decision.considered) {
    *out.add_considered() = to_proto(candidate);
  }
  return out;
}

namespace {

// Everything but `considered`.
Result<Decision> read_decision(const v1::Decision& message) {
  Decision decision;
  decision.action = TRY(from_enum<Action>(message.action(), v1::Decision::Action_MAX, "action"));
  decision.reason = TRY(from_enum<Reason>(message.reason(), v1::Decision::Reason_MAX, "reason"));
  TRY(check_indices(message));
  TRY(read_each(message.evidence(), decision.evidence, "evidence",
                [](const v1::Evidence& each) { return from_proto(each); }));
  if (message.has_driving()) decision.driving = message.driving();
  TRY(read_evictions(message, static_cast<std::uint32_t>(message.considered_size()),
                     decision.evictions));
  for (const int step : message.node_reclaim()) {
    decision.node_reclaim.push_back(
        TRY(from_enum<ReclaimStep>(step, v1::Decision::ReclaimStep_MAX, "nodeReclaim")));
  }
  TRY(read_conditions(message, decision.conditions));
  if (message.has_damage()) decision.damage = messages::from_proto(message.damage());
  TRY(read_each(message.rulesets(), decision.rulesets, "rulesets",
                [](const v1::RulesetRun& each) { return messages::from_proto(each); }));
  if (message.has_ruleset()) decision.ruleset = message.ruleset();
  return decision;
}

}  // namespace

Result<Decision> from_proto(const v1::Decision& message) {
  Decision decision = TRY(read_decision(message));
  TRY(read_each(message.considered(), decision.considered, "considered",
                [](const v1::Candidate& each) { return from_proto(each); }));
  return decision;
}

Result<Decision> decision_from_proto(const v1::EvaluationDecision& message,
                                     const Observation& observation) {
  Decision decision = TRY(read_decision(message.decision()));
  const int count = message.decision().considered_size();
  if (message.samples_size() != count) {
    return error("samples: their number differs from that of the candidates");
  }
  const std::size_t known = observation.workloads ? observation.workloads->size() : 0;
  std::size_t copied = 0;
  for (int i = 0; i < count; ++i) {
    const v1::Candidate& given = message.decision().considered(i);
    const std::uint32_t sample = message.samples(i);
    if (sample == 0) {
      decision.considered.push_back(TRY(from_proto(given)));
      continue;
    }
    if (sample > known) return error("samples: there is no workload " + std::to_string(sample));
    const WorkloadSample& known_sample = (*observation.workloads)[sample - 1];
    copied += size_of_copy(known_sample.workload);
    if (copied > kCopiedMax) return error("considered: the samples exceed the limit of 256 MiB");
    Candidate& candidate = decision.considered.emplace_back();
    candidate.sample = known_sample;
    TRY(read_rank(given, candidate));
  }
  return decision;
}

}  // namespace forestall::messages
