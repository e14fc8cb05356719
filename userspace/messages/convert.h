// SPDX-License-Identifier: Apache-2.0
// Converts between messages and model types. Neither is generated from the other, so that each can
// change separately.
//
// to_proto() cannot fail; it replaces invalid UTF-8 in strings, because cgroup names may contain
// any byte. from_proto() gives unset fields the meaning that the schema states. It refuses unknown
// enum values, missing required fields and contradictory fields; the error contains the path of the
// field. For valid UTF-8, from_proto(to_proto(x)) == x.
//
// There is one convert_*.cc per subject.
#pragma once

#include "base/result.h"
#include "forestall/v1/container_pressure.pb.h"
#include "forestall/v1/decision.pb.h"
#include "forestall/v1/doctor.pb.h"
#include "forestall/v1/effective_config.pb.h"
#include "forestall/v1/observation.pb.h"
#include "forestall/v1/oom.pb.h"
#include "forestall/v1/pod.pb.h"
#include "forestall/v1/record.pb.h"
#include "forestall/v1/rule_sample.pb.h"
#include "forestall/v1/rule_state.pb.h"
#include "forestall/v1/ruleset.pb.h"
#include "model/bpf_counter.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/feature.h"
#include "model/kill.h"
#include "model/observation.h"
#include "model/oom.h"
#include "model/oom_kill.h"
#include "model/outcome.h"
#include "model/pod.h"
#include "model/process.h"
#include "model/record.h"
#include "model/rule_state.h"

namespace forestall::messages {

[[nodiscard]] v1::Pod to_proto(const Pod& pod);
[[nodiscard]] v1::Wake to_proto(const Wake& wake);
[[nodiscard]] v1::Workload to_proto(const Workload& workload);
[[nodiscard]] v1::WorkloadSample to_proto(const WorkloadSample& sample);
[[nodiscard]] v1::KillProgress to_proto(const KillProgress& kill);
[[nodiscard]] v1::SourceNote to_proto(const SourceNote& note);
[[nodiscard]] v1::Observation to_proto(const Observation& observation);

[[nodiscard]] v1::Limit to_proto(const Limit& limit);
[[nodiscard]] v1::Threshold to_proto(const Threshold& threshold);
// The configuration in force, not the file it came from.
[[nodiscard]] v1::EffectiveConfig to_proto(const Config& config);

[[nodiscard]] v1::Decision::Action to_proto(Action action);
[[nodiscard]] v1::Decision::Reason to_proto(Reason reason);
[[nodiscard]] v1::Evidence to_proto(const Evidence& evidence);
[[nodiscard]] v1::Candidate to_proto(const Candidate& candidate);
[[nodiscard]] v1::ConditionStatus to_proto(const ConditionStatus& status);
[[nodiscard]] v1::Decision to_proto(const Decision& decision);
[[nodiscard]] v1::Outcome to_proto(const Outcome& outcome);
[[nodiscard]] v1::Record to_proto(const Record& record);

[[nodiscard]] v1::ProcessSample to_proto(const ProcessSample& process);
[[nodiscard]] v1::OomScene to_proto(const OomScene& scene);
[[nodiscard]] v1::OomPrediction to_proto(const OomPrediction& prediction);
[[nodiscard]] v1::OomKill to_proto(const OomKill& kill);

[[nodiscard]] v1::RuleSample to_proto(const rulesets::RuleObservation& observation);
[[nodiscard]] v1::RuleState to_proto(const rulesets::RuleState& state);
[[nodiscard]] v1::RulesetRun to_proto(const RuleReport& report);
// REQUIRES: its plugins are Forestall's own, not those that only oomd's file has.
[[nodiscard]] v1::Ruleset to_proto(const rulesets::Ruleset& ruleset);
[[nodiscard]] v1::PrekillHook to_proto(const rulesets::PrekillHook& hook);
[[nodiscard]] rulesets::RuleObservation from_proto(const v1::RuleSample& message);
[[nodiscard]] rulesets::RuleState from_proto(const v1::RuleState& message);
[[nodiscard]] Result<RuleReport> from_proto(const v1::RulesetRun& message);
// Of a configuration in force: what intake checks is not checked again.
[[nodiscard]] Result<rulesets::Ruleset> from_proto(const v1::Ruleset& message);
[[nodiscard]] rulesets::PrekillHook from_proto(const v1::PrekillHook& message);

[[nodiscard]] v1::MemoryKinds to_proto(const MemoryKinds& kinds);
[[nodiscard]] v1::Damage to_proto(const Damage& damage);
[[nodiscard]] v1::EffectiveKillLimit to_proto(const KillLimit& limit);
[[nodiscard]] v1::EffectiveMemoryQos to_proto(const MemoryQosConfig& qos);
[[nodiscard]] v1::EffectiveContainerPressure to_proto(const ContainerPressureConfig& config);
// With at most so many of those under pressure.
[[nodiscard]] v1::ContainerPressureStatus to_proto(const ContainerPressureReport& report,
                                                   std::size_t most);
[[nodiscard]] MemoryKinds from_proto(const v1::MemoryKinds& message);
[[nodiscard]] Damage from_proto(const v1::Damage& message);
[[nodiscard]] KillLimit from_proto(const v1::EffectiveKillLimit& message);
[[nodiscard]] Result<MemoryQosConfig> from_proto(const v1::EffectiveMemoryQos& message);
[[nodiscard]] Result<ContainerPressureConfig> from_proto(
    const v1::EffectiveContainerPressure& message);

// Without `cost`, which the caller sets.
[[nodiscard]] v1::FeatureReport to_proto(const FeatureReport& report);
[[nodiscard]] v1::DoctorReport::Tier to_proto(Tier tier);
[[nodiscard]] v1::BpfCounter to_proto(const BpfCounter& counter);

[[nodiscard]] Result<Pod> from_proto(const v1::Pod& message);
[[nodiscard]] Result<KillProgress> from_proto(const v1::KillProgress& message);
// Only the time is required; the schema's comments state the meaning of other unset fields.
[[nodiscard]] Result<Observation> from_proto(const v1::Observation& message);
[[nodiscard]] Result<Decision> from_proto(const v1::Decision& message);
[[nodiscard]] Result<Outcome> from_proto(const v1::Outcome& message);
[[nodiscard]] Result<Record> from_proto(const v1::Record& message);
[[nodiscard]] Result<ProcessSample> from_proto(const v1::ProcessSample& message);
[[nodiscard]] Result<OomScene> from_proto(const v1::OomScene& message);
// Does not check indices, because the scene that they refer to is not available here.
[[nodiscard]] Result<OomPrediction> from_proto(const v1::OomPrediction& message);
[[nodiscard]] Result<OomKill> from_proto(const v1::OomKill& message);
[[nodiscard]] Result<Threshold> from_proto(const v1::Threshold& message);
[[nodiscard]] Result<Config> from_proto(const v1::EffectiveConfig& message);

// "kubelet", "kernel" or "kubelet+growth".
[[nodiscard]] std::string_view ranking_word(Ranking ranking);
[[nodiscard]] std::optional<Ranking> parse_ranking(std::string_view word);

}  // namespace forestall::messages
