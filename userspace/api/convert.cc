// SPDX-License-Identifier: Apache-2.0
#include "api/convert.h"

#include <google/protobuf/util/time_util.h>

#include "api/utf8.h"

namespace forestall::api {
namespace {

// Each enum of the schema lists the values of the model's in the same order, after UNSPECIFIED; a
// test compares their words one by one.
template <typename To, typename From>
To to_enum(From value) {
  return static_cast<To>(static_cast<int>(value) + 1);
}

template <typename To>
Result<To> from_enum(int value, int last, std::string_view field) {
  if (value == 0) return error(std::string(field) + ": unspecified");
  if (value < 0 || value > last) {
    return error(std::string(field) + ": unknown value " + std::to_string(value));
  }
  return static_cast<To>(value - 1);
}

std::string at_index(std::string_view list, int i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

v1::NodeSample to_proto(const NodeSample& node) {
  v1::NodeSample out;
  if (node.capacity) out.set_capacity_bytes(node.capacity->count);
  if (node.usage) out.set_usage_bytes(node.usage->count);
  if (node.inactive_file) out.set_inactive_file_bytes(node.inactive_file->count);
  if (node.kernel_available) out.set_kernel_available_bytes(node.kernel_available->count);
  if (node.swap_total) out.set_swap_total_bytes(node.swap_total->count);
  if (node.swap_free) out.set_swap_free_bytes(node.swap_free->count);
  return out;
}

v1::CgroupSample to_proto(const CgroupSample& sample) {
  v1::CgroupSample out;
  out.set_cgroup_id(sample.id.inode);
  out.set_path(to_utf8(sample.path));
  if (sample.usage) out.set_usage_bytes(sample.usage->count);
  if (sample.inactive_file) out.set_inactive_file_bytes(sample.inactive_file->count);
  if (sample.limit) out.set_limit_bytes(sample.limit->count);
  out.set_threshold(static_cast<std::uint32_t>(sample.threshold));
  return out;
}

v1::EffectiveWorkloadRule to_proto(const WorkloadRule& rule) {
  v1::EffectiveWorkloadRule out;
  out.set_cgroup(to_utf8(rule.cgroup));
  if (rule.name) out.set_name(to_utf8(*rule.name));
  if (rule.priority) out.set_priority(*rule.priority);
  if (rule.memory_request) out.set_memory_request_bytes(rule.memory_request->count);
  out.set_protected_(rule.is_protected);
  return out;
}

v1::EffectivePodRule to_proto(const PodRule& rule) {
  v1::EffectivePodRule out;
  out.set_uid(to_utf8(rule.uid));
  if (rule.name) out.set_name(to_utf8(*rule.name));
  if (rule.priority) out.set_priority(*rule.priority);
  if (rule.memory_request) out.set_memory_request_bytes(rule.memory_request->count);
  out.set_protected_(rule.is_protected);
  return out;
}

v1::Attempt to_proto(const Attempt& attempt) {
  v1::Attempt out;
  out.set_rung(to_enum<v1::Attempt::Rung>(attempt.rung));
  out.set_at_ns(to_ns(attempt.at));
  out.set_processes(attempt.processes);
  if (attempt.failure) {
    out.mutable_failure()->set_code(attempt.failure->code);
    out.mutable_failure()->set_message(to_utf8(attempt.failure->message));
  }
  return out;
}

v1::StageTimes to_proto(const StageTimes& stages) {
  v1::StageTimes out;
  out.set_crossed_ns(to_ns(stages.crossed));
  out.set_woken_ns(to_ns(stages.woken));
  out.set_observed_ns(to_ns(stages.observed));
  out.set_decided_ns(to_ns(stages.decided));
  return out;
}

Result<Wake> from_proto(const v1::Wake& message) {
  Wake wake;
  wake.source = TRY(from_enum<WakeSource>(message.source(), v1::Wake::Source_MAX, "source"));
  wake.at = from_ns(message.at_ns());
  if (message.has_cgroup_id()) wake.cgroup = CgroupId{message.cgroup_id()};
  if (message.has_usage_bytes()) wake.usage = Bytes{message.usage_bytes()};
  return wake;
}

NodeSample from_proto(const v1::NodeSample& message) {
  NodeSample node;
  if (message.has_capacity_bytes()) node.capacity = Bytes{message.capacity_bytes()};
  if (message.has_usage_bytes()) node.usage = Bytes{message.usage_bytes()};
  if (message.has_inactive_file_bytes()) node.inactive_file = Bytes{message.inactive_file_bytes()};
  if (message.has_kernel_available_bytes()) {
    node.kernel_available = Bytes{message.kernel_available_bytes()};
  }
  if (message.has_swap_total_bytes()) node.swap_total = Bytes{message.swap_total_bytes()};
  if (message.has_swap_free_bytes()) node.swap_free = Bytes{message.swap_free_bytes()};
  return node;
}

CgroupSample from_proto(const v1::CgroupSample& message) {
  CgroupSample sample;
  sample.id.inode = message.cgroup_id();
  sample.path = message.path();
  if (message.has_usage_bytes()) sample.usage = Bytes{message.usage_bytes()};
  if (message.has_inactive_file_bytes()) {
    sample.inactive_file = Bytes{message.inactive_file_bytes()};
  }
  if (message.has_limit_bytes()) sample.limit = Bytes{message.limit_bytes()};
  sample.threshold = message.threshold();
  return sample;
}

Result<Workload> from_proto(const v1::Workload& message) {
  Workload workload;
  workload.cgroup.inode = message.cgroup_id();
  workload.path = message.path();
  workload.kind = TRY(from_enum<WorkloadKind>(message.kind(), v1::Workload::Kind_MAX, "kind"));
  workload.name = message.name();
  if (message.has_pod_uid()) workload.pod_uid = message.pod_uid();
  if (message.has_priority()) workload.priority = message.priority();
  if (message.has_memory_request_bytes()) {
    workload.memory_request = Bytes{message.memory_request_bytes()};
  }
  workload.protection =
      TRY(from_enum<Protection>(message.protection(), v1::Workload::Protection_MAX, "protection"));
  return workload;
}

Result<WorkloadSample> from_proto(const v1::WorkloadSample& message) {
  if (!message.has_workload()) return error("workload: missing");
  Result<Workload> workload = from_proto(message.workload());
  if (!workload) return workload.error().in("workload");
  WorkloadSample sample;
  sample.workload = *workload;
  if (message.has_usage_bytes()) sample.usage = Bytes{message.usage_bytes()};
  if (message.has_inactive_file_bytes()) {
    sample.inactive_file = Bytes{message.inactive_file_bytes()};
  }
  if (message.has_processes()) sample.processes = message.processes();
  return sample;
}

Result<KillProgress> from_proto(const v1::KillProgress& message) {
  KillProgress kill;
  kill.cgroup.inode = message.cgroup_id();
  kill.path = message.path();
  kill.state = TRY(from_enum<KillState>(message.state(), v1::KillProgress::State_MAX, "state"));
  kill.started = from_ns(message.started_ns());
  kill.remaining = Bytes{message.remaining_bytes()};
  return kill;
}

Result<std::optional<std::vector<WorkloadSample>>> workloads_of(const v1::Observation& message) {
  if (!message.workloads_read()) {
    if (message.workloads().empty()) return std::optional<std::vector<WorkloadSample>>();
    return error("workloads: present, although workloadsRead is false");
  }
  std::vector<WorkloadSample> workloads;
  for (int i = 0; i < message.workloads_size(); ++i) {
    Result<WorkloadSample> sample = from_proto(message.workloads(i));
    if (!sample) return sample.error().in(at_index("workloads", i));
    workloads.push_back(*sample);
  }
  return std::optional(std::move(workloads));
}

Result<Limit> from_proto(const v1::Limit& message) {
  switch (message.amount_case()) {
    case v1::Limit::kBytes: return Limit::bytes(Bytes{message.bytes()});
    case v1::Limit::kFraction: return Limit::share(message.fraction());
    case v1::Limit::AMOUNT_NOT_SET: break;
  }
  return error("neither bytes nor fraction");
}

// EffectiveWorkloadRule and EffectivePodRule, which differ only in how they name their subject.
template <typename Rule, typename Message>
Rule rule_of(const Message& message, Rule rule) {
  if (message.has_name()) rule.name = message.name();
  if (message.has_priority()) rule.priority = message.priority();
  if (message.has_memory_request_bytes()) {
    rule.memory_request = Bytes{message.memory_request_bytes()};
  }
  rule.is_protected = message.protected_();
  return rule;
}

}  // namespace

v1::Wake to_proto(const Wake& wake) {
  v1::Wake out;
  out.set_source(to_enum<v1::Wake::Source>(wake.source));
  out.set_at_ns(to_ns(wake.at));
  if (wake.cgroup) out.set_cgroup_id(wake.cgroup->inode);
  if (wake.usage) out.set_usage_bytes(wake.usage->count);
  return out;
}

v1::Workload to_proto(const Workload& workload) {
  v1::Workload out;
  out.set_cgroup_id(workload.cgroup.inode);
  out.set_path(to_utf8(workload.path));
  out.set_kind(to_enum<v1::Workload::Kind>(workload.kind));
  out.set_name(to_utf8(workload.name));
  if (workload.pod_uid) out.set_pod_uid(to_utf8(*workload.pod_uid));
  if (workload.priority) out.set_priority(*workload.priority);
  if (workload.memory_request) out.set_memory_request_bytes(workload.memory_request->count);
  out.set_protection(to_enum<v1::Workload::Protection>(workload.protection));
  return out;
}

v1::WorkloadSample to_proto(const WorkloadSample& sample) {
  v1::WorkloadSample out;
  *out.mutable_workload() = to_proto(sample.workload);
  if (sample.usage) out.set_usage_bytes(sample.usage->count);
  if (sample.inactive_file) out.set_inactive_file_bytes(sample.inactive_file->count);
  if (sample.processes) out.set_processes(*sample.processes);
  return out;
}

v1::KillProgress to_proto(const KillProgress& kill) {
  v1::KillProgress out;
  out.set_cgroup_id(kill.cgroup.inode);
  out.set_path(to_utf8(kill.path));
  out.set_state(to_enum<v1::KillProgress::State>(kill.state));
  out.set_started_ns(to_ns(kill.started));
  out.set_remaining_bytes(kill.remaining.count);
  return out;
}

v1::Observation to_proto(const Observation& observation) {
  v1::Observation out;
  out.set_at_ns(to_ns(observation.at));
  *out.mutable_wake() = to_proto(observation.wake);
  *out.mutable_node() = to_proto(observation.node);
  if (observation.pods) *out.mutable_pods() = to_proto(*observation.pods);
  for (const CgroupSample& sample : observation.watched) *out.add_watched() = to_proto(sample);
  out.set_workloads_read(observation.workloads.has_value());
  if (observation.workloads) {
    for (const WorkloadSample& sample : *observation.workloads) {
      *out.add_workloads() = to_proto(sample);
    }
  }
  for (const KillProgress& kill : observation.kills) *out.add_kills() = to_proto(kill);
  for (const SourceNote& note : observation.notes) {
    v1::SourceNote& added = *out.add_notes();
    added.set_subject(to_utf8(note.subject));
    added.set_problem(to_utf8(note.problem));
  }
  return out;
}

v1::Limit to_proto(const Limit& limit) {
  v1::Limit out;
  if (limit.quantity) {
    out.set_bytes(limit.quantity->count);
  } else if (limit.fraction) {
    out.set_fraction(*limit.fraction);
  }
  return out;
}

v1::Threshold to_proto(const Threshold& threshold) {
  v1::Threshold out;
  out.set_signal(std::string(to_string(threshold.signal)));
  if (threshold.signal == Signal::cgroup_memory_available) {
    out.set_cgroup(to_utf8(threshold.cgroup));
  }
  *out.mutable_limit() = to_proto(threshold.limit);
  out.set_grace_ns(threshold.grace.count());
  if (threshold.min_reclaim) *out.mutable_minimum_reclaim() = to_proto(*threshold.min_reclaim);
  if (threshold.capacity) out.set_capacity_bytes(threshold.capacity->count);
  out.set_tune_memory_high(threshold.tune);
  return out;
}

v1::EffectiveConfig to_proto(const Config& config) {
  v1::EffectiveConfig out;
  out.set_dry_run(config.dry_run);
  for (const Threshold& threshold : config.thresholds) *out.add_thresholds() = to_proto(threshold);
  out.set_pods(config.pods);
  out.set_cgroup_root(to_utf8(config.cgroup_root));
  for (const WorkloadRule& rule : config.workloads) *out.add_workloads() = to_proto(rule);
  for (const PodRule& rule : config.pod_rules) *out.add_pod_rules() = to_proto(rule);
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    if (config.disabled.test(i)) out.add_disable_features(std::string(to_string(feature_at(i))));
  }
  out.set_release_timeout_ns(config.release_timeout.count());
  out.set_recheck_interval_ns(config.recheck_interval.count());
  return out;
}

v1::Evidence to_proto(const Evidence& evidence) {
  v1::Evidence out;
  *out.mutable_threshold() = to_proto(evidence.threshold);
  out.set_subject(to_utf8(evidence.subject));
  if (evidence.cgroup.inode != 0) out.set_cgroup_id(evidence.cgroup.inode);
  out.set_capacity_bytes(evidence.capacity.count);
  out.set_available_bytes(evidence.available.count);
  out.set_limit_bytes(evidence.limit.count);
  out.set_pending_release_bytes(evidence.pending_release.count);
  out.set_met(evidence.met);
  return out;
}

v1::Candidate to_proto(const Candidate& candidate) {
  v1::Candidate out;
  *out.mutable_sample() = to_proto(candidate.sample);
  v1::RankKey& key = *out.mutable_key();
  key.set_measured(candidate.key.measured);
  key.set_exceeds_request(candidate.key.exceeds_request);
  key.set_priority(candidate.key.priority);
  key.set_over_request_bytes(candidate.key.over_request.count);
  out.set_exclusion(to_enum<v1::Candidate::Exclusion>(candidate.exclusion));
  return out;
}

v1::Decision to_proto(const Decision& decision) {
  v1::Decision out;
  out.set_action(to_enum<v1::Decision::Action>(decision.action));
  out.set_reason(to_enum<v1::Decision::Reason>(decision.reason));
  for (const Evidence& evidence : decision.evidence) *out.add_evidence() = to_proto(evidence);
  if (decision.driving) out.set_driving(static_cast<std::uint32_t>(*decision.driving));
  for (const Candidate& candidate : decision.considered) {
    *out.add_considered() = to_proto(candidate);
  }
  if (decision.victim) out.set_victim(static_cast<std::uint32_t>(*decision.victim));
  return out;
}

v1::Outcome to_proto(const Outcome& outcome) {
  v1::Outcome out;
  *out.mutable_victim() = to_proto(outcome.victim);
  out.set_dry_run(outcome.dry_run);
  out.set_state(to_enum<v1::KillProgress::State>(outcome.state));
  for (const Attempt& attempt : outcome.attempts) *out.add_attempts() = to_proto(attempt);
  out.set_processes(outcome.processes);
  out.set_usage_before_bytes(outcome.usage_before.count);
  out.set_freed_bytes(outcome.freed.count);
  out.set_began_ns(to_ns(outcome.began));
  if (outcome.signalled) out.set_signalled_ns(to_ns(*outcome.signalled));
  if (outcome.exited) out.set_exited_ns(to_ns(*outcome.exited));
  if (outcome.released) out.set_released_ns(to_ns(*outcome.released));
  return out;
}

v1::Record to_proto(const Record& record) {
  v1::Record out;
  out.set_sequence(record.sequence);
  *out.mutable_wall_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(record.wall_time_ns);
  *out.mutable_observation() = to_proto(record.observation);
  *out.mutable_decision() = to_proto(record.decision);
  *out.mutable_stages() = to_proto(record.stages);
  if (record.outcome) *out.mutable_outcome() = to_proto(*record.outcome);
  return out;
}

v1::FeatureReport to_proto(const FeatureReport& report) {
  v1::FeatureReport out;
  out.set_feature(std::string(to_string(report.feature)));
  out.set_state(to_enum<v1::FeatureReport::State>(report.state));
  out.set_evidence(to_utf8(report.evidence));
  return out;
}

v1::DoctorReport::Tier to_proto(Tier tier) {
  return to_enum<v1::DoctorReport::Tier>(tier);
}

Result<Observation> from_proto(const v1::Observation& message) {
  Observation observation;
  observation.at = from_ns(message.at_ns());
  if (!message.has_wake()) return error("wake: missing");
  Result<Wake> wake = from_proto(message.wake());
  if (!wake) return wake.error().in("wake");
  observation.wake = *wake;
  observation.node = from_proto(message.node());
  if (message.has_pods()) observation.pods = from_proto(message.pods());
  for (const v1::CgroupSample& sample : message.watched()) {
    observation.watched.push_back(from_proto(sample));
  }
  observation.workloads = TRY(workloads_of(message));
  for (int i = 0; i < message.kills_size(); ++i) {
    Result<KillProgress> kill = from_proto(message.kills(i));
    if (!kill) return kill.error().in(at_index("kills", i));
    observation.kills.push_back(*kill);
  }
  for (const v1::SourceNote& note : message.notes()) {
    observation.notes.push_back({note.subject(), note.problem()});
  }
  return observation;
}

Result<Threshold> from_proto(const v1::Threshold& message) {
  Threshold threshold;
  const std::optional<Signal> signal = parse_signal(message.signal());
  if (!signal) return error("signal: unknown '" + message.signal() + "'");
  threshold.signal = *signal;
  if (message.has_cgroup() != (*signal == Signal::cgroup_memory_available)) {
    return error("cgroup: must be set exactly when the signal is cgroupMemory.available");
  }
  threshold.cgroup = message.cgroup();
  Result<Limit> limit = from_proto(message.limit());
  if (!limit) return limit.error().in("limit");
  threshold.limit = *limit;
  threshold.grace = Duration(message.grace_ns());
  if (message.has_minimum_reclaim()) {
    Result<Limit> reclaim = from_proto(message.minimum_reclaim());
    if (!reclaim) return reclaim.error().in("minimumReclaim");
    threshold.min_reclaim = *reclaim;
  }
  if (message.has_capacity_bytes()) threshold.capacity = Bytes{message.capacity_bytes()};
  threshold.tune = message.tune_memory_high();
  return threshold;
}

Result<Config> from_proto(const v1::EffectiveConfig& message) {
  Config config;
  config.dry_run = message.dry_run();
  for (int i = 0; i < message.thresholds_size(); ++i) {
    Result<Threshold> threshold = from_proto(message.thresholds(i));
    if (!threshold) return threshold.error().in(at_index("thresholds", i));
    config.thresholds.push_back(*threshold);
  }
  config.pods = message.pods();
  config.cgroup_root = message.cgroup_root();
  for (const v1::EffectiveWorkloadRule& rule : message.workloads()) {
    WorkloadRule subject;
    subject.cgroup = rule.cgroup();
    config.workloads.push_back(rule_of(rule, subject));
  }
  for (const v1::EffectivePodRule& rule : message.pod_rules()) {
    PodRule subject;
    subject.uid = rule.uid();
    config.pod_rules.push_back(rule_of(rule, subject));
  }
  for (const std::string& name : message.disable_features()) {
    const std::optional<Feature> feature = parse_feature(name);
    if (!feature) return error("disableFeatures: unknown '" + name + "'");
    config.disabled.set(static_cast<std::size_t>(*feature));
  }
  config.release_timeout = Duration(message.release_timeout_ns());
  config.recheck_interval = Duration(message.recheck_interval_ns());
  return config;
}

}  // namespace forestall::api
