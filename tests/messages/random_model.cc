// SPDX-License-Identifier: Apache-2.0
#include "messages/random_model.h"

#include <algorithm>
#include <string_view>

#include "forestall/v1/decision.pb.h"
#include "forestall/v1/observation.pb.h"
#include "forestall/v1/oom.pb.h"
#include "forestall/v1/pod.pb.h"
#include "forestall/v1/record.pb.h"

namespace forestall::test {
namespace {

ResourceList random_resources(Dice& dice) {
  return {dice.maybe_quantity(), dice.maybe_quantity(), dice.maybe_quantity()};
}

PodContainer random_container(Dice& dice) {
  return {dice.text(), dice.text(), random_resources(dice), random_resources(dice), dice.coin()};
}

DiskUsage random_usage(Dice& dice) {
  return {dice.maybe_bytes(), dice.maybe_integer()};
}

PodStatistics random_statistics(Dice& dice) {
  PodStatistics statistics;
  statistics.containers = dice.some([&] {
    return ContainerSample{dice.text(), dice.maybe_bytes(),
                           dice.maybe([&] { return random_usage(dice); }),
                           dice.maybe([&] { return random_usage(dice); })};
  });
  statistics.volumes = dice.some([&] { return VolumeSample{dice.text(), random_usage(dice)}; });
  statistics.ephemeral_storage = dice.maybe([&] { return random_usage(dice); });
  return statistics;
}

ProcessId random_process_id(Dice& dice) {
  return {dice.small(), dice.inode()};
}

ProcessMemory random_memory(Dice& dice) {
  return {dice.integer(), dice.integer(), dice.integer(), dice.integer(), dice.integer()};
}

// At most 15 bytes and a NUL, as in the kernel.
std::array<char, 16> random_comm(Dice& dice) {
  static constexpr std::string_view kNames[] = {"", "bash", "a b(c)", "\"\\\n", "€€€€€"};
  std::array<char, 16> comm{};
  const std::string_view name = kNames[dice.below(5)];
  std::copy(name.begin(), name.end(), comm.begin());
  return comm;
}

OomKillEvent random_event(Dice& dice) {
  OomKillEvent event;
  event.at = dice.time();
  event.victim = random_process_id(dice);
  event.comm = random_comm(dice);
  event.uid = dice.count();
  event.oom_score_adj = dice.small();
  event.cgroup.inode = dice.inode();
  event.path = dice.text();
  event.memory = dice.maybe([&] { return random_memory(dice); });
  event.points = dice.maybe_integer();
  event.total_pages = dice.maybe_integer();
  event.constraint =
      dice.maybe([&] { return dice.one_of<Constraint>(v1::OomDomain::Constraint_MAX); });
  event.constraint_deduced = dice.coin();
  event.domain.inode = dice.inode();
  event.domain_path = dice.text();
  event.domain_usage = dice.maybe_bytes();
  event.domain_limit = dice.maybe_bytes();
  event.killer = dice.maybe([&] { return random_process_id(dice); });
  event.killer_comm = random_comm(dice);
  event.with_another = dice.coin();
  return event;
}

OomCgroup random_oom_cgroup(Dice& dice, std::size_t before) {
  OomCgroup cgroup{CgroupId{dice.inode()}, dice.text(), std::nullopt, dice.coin()};
  if (before > 0 && dice.coin()) cgroup.parent = dice.below(before);
  return cgroup;
}

OomChoice random_choice(Dice& dice) {
  return {dice.count(), dice.integer()};
}

Workload random_workload(Dice& dice) {
  Workload workload;
  workload.cgroup.inode = dice.inode();
  workload.path = dice.text();
  workload.kind = dice.one_of<WorkloadKind>(v1::Workload::Kind_MAX);
  workload.name = dice.text();
  workload.pod_uid = dice.maybe([&] { return dice.text(); });
  workload.priority = dice.maybe([&] { return dice.small(); });
  workload.memory_request = dice.maybe_bytes();
  workload.protection = dice.one_of<Protection>(v1::Workload::Protection_MAX);
  if (dice.coin()) {
    workload.pod = std::make_shared<const Pod>(random_pod(dice));
    // A known pod has a UID.
    if (!workload.pod_uid) workload.pod_uid = workload.pod->uid;
  }
  workload.inferred = dice.maybe([&] {
    return InferredFacts{dice.one_of<QosClass>(3), dice.maybe([&] { return dice.small(); }),
                         dice.maybe_bytes()};
  });
  workload.preference = dice.one_of<Preference>(v1::Workload::Preference_MAX);
  return workload;
}

WorkloadSample random_sample(Dice& dice) {
  WorkloadSample sample;
  sample.workload = random_workload(dice);
  sample.usage = dice.maybe_bytes();
  sample.inactive_file = dice.maybe_bytes();
  sample.processes = dice.maybe([&] { return dice.inode(); });
  sample.statistics = dice.maybe([&] { return random_statistics(dice); });
  sample.scored = dice.coin();
  if (sample.scored && dice.coin()) {
    sample.badness = WorkloadBadness{random_process_id(dice), dice.integer()};
  }
  sample.growth = dice.maybe_bytes();
  return sample;
}

NodeSample random_node(Dice& dice) {
  return {dice.maybe_bytes(), dice.maybe_bytes(), dice.maybe_bytes(), dice.maybe_bytes(),
          dice.maybe_bytes(), dice.maybe_bytes(), dice.maybe_time()};
}

CgroupSample random_cgroup(Dice& dice) {
  return {CgroupId{dice.inode()}, dice.text(),       dice.maybe_bytes(), dice.maybe_bytes(),
          dice.maybe_bytes(),     dice.maybe_time(), dice.below(1000)};
}

FilesystemSample random_filesystem(Dice& dice) {
  return {dice.maybe_bytes(), dice.maybe_bytes(), dice.maybe_integer(), dice.maybe_integer(),
          dice.maybe_time()};
}

FilesystemSamples random_filesystems(Dice& dice) {
  return {
      dice.maybe([&] { return dice.one_of<FilesystemLayout>(v1::FilesystemSamples::Layout_MAX); }),
      dice.maybe([&] { return random_filesystem(dice); }),
      dice.maybe([&] { return random_filesystem(dice); }),
      dice.maybe([&] { return random_filesystem(dice); })};
}

Evidence random_evidence(Dice& dice) {
  Evidence evidence;
  evidence.threshold = random_threshold(dice);
  evidence.subject = dice.text();
  evidence.cgroup.inode = dice.inode();
  evidence.capacity = dice.integer();
  evidence.available = dice.integer();
  evidence.limit = dice.quantity();
  evidence.pending_release = dice.integer();
  evidence.met = dice.coin();
  evidence.at = dice.time();
  evidence.first_met = dice.maybe_time();
  evidence.driving = dice.coin();
  return evidence;
}

Candidate random_candidate(Dice& dice) {
  return {random_sample(dice),
          RankKey{dice.coin(), dice.coin(), dice.small(), dice.integer(), dice.integer(),
                  dice.integer(), dice.maybe_integer(), dice.maybe_integer(), dice.coin(),
                  dice.one_of<Preference>(v1::Workload::Preference_MAX)},
          dice.one_of<Exclusion>(v1::Candidate::Exclusion_MAX)};
}

Eviction random_eviction(Dice& dice, std::size_t candidates) {
  Eviction eviction;
  eviction.candidate = dice.below(candidates);
  eviction.cause = dice.one_of<EvictionCause>(5);
  eviction.grace = dice.duration();
  eviction.at_once = dice.coin();
  eviction.message = dice.text();
  eviction.annotations = dice.some([&] { return std::pair(dice.text(), dice.text()); });
  eviction.disruption_target = dice.coin();
  eviction.metric_signal = dice.text();
  return eviction;
}

MemoryKinds random_kinds(Dice& dice) {
  return {dice.maybe_bytes(), dice.maybe_bytes(), dice.maybe_bytes(), dice.maybe_bytes()};
}

Outcome random_outcome(Dice& dice) {
  Outcome outcome;
  outcome.victim = random_workload(dice);
  outcome.dry_run = dice.coin();
  outcome.state = dice.one_of<KillState>(v1::KillProgress::State_MAX);
  outcome.attempts = dice.some([&] {
    return Attempt{dice.one_of<Rung>(v1::Attempt::Rung_MAX), dice.time(), dice.count(),
                   dice.maybe([&] {
                     return Error{dice.small(), dice.text()};
                   })};
  });
  outcome.processes = dice.count();
  outcome.usage_before = dice.bytes();
  outcome.freed = dice.bytes();
  outcome.began = dice.time();
  outcome.signalled = dice.maybe_time();
  outcome.exited = dice.maybe_time();
  outcome.released = dice.maybe_time();
  outcome.left_behind = dice.maybe([&] { return LeftBehind{dice.bytes(), random_kinds(dice)}; });
  return outcome;
}

}  // namespace

Limit random_limit(Dice& dice) {
  if (dice.coin()) return {dice.quantity(), std::nullopt};
  return Limit::share(static_cast<float>(dice.below(1'000'000)) / 999'983);
}

Threshold random_threshold(Dice& dice) {
  Threshold threshold;
  threshold.signal = kSignals[dice.below(kSignals.size())];
  if (threshold.signal == Signal::cgroup_memory_available) threshold.cgroup = dice.text();
  threshold.limit = random_limit(dice);
  threshold.grace = dice.duration();
  threshold.min_reclaim = dice.maybe([&] { return random_limit(dice); });
  threshold.capacity = dice.maybe_bytes();
  threshold.tune = dice.coin();
  if (threshold.signal == Signal::cgroup_memory_available && dice.coin()) {
    threshold.cgroup.clear();
    threshold.own_limits_of = dice.one_of<WorkloadClass>(4);
    threshold.response = dice.one_of<Response>(3);
  }
  return threshold;
}

Pod random_pod(Dice& dice) {
  Pod pod;
  pod.uid = dice.text();
  pod.name = dice.text();
  pod.pod_namespace = dice.text();
  pod.origin = dice.one_of<PodOrigin>(v1::Pod::Origin_MAX);
  pod.config_hash = dice.text();
  pod.phase = dice.one_of<PodPhase>(v1::Pod::Phase_MAX);
  pod.terminating = dice.coin();
  pod.priority = dice.maybe([&] { return dice.small(); });
  pod.priority_class = dice.text();
  pod.status_qos = dice.maybe([&] { return dice.one_of<QosClass>(3); });
  pod.termination_grace = dice.maybe([&] { return dice.duration(); });
  pod.requests = dice.maybe([&] { return random_resources(dice); });
  pod.limits = dice.maybe([&] { return random_resources(dice); });
  pod.overhead = random_resources(dice);
  pod.init_containers = dice.some([&] { return random_container(dice); });
  pod.containers = dice.some([&] { return random_container(dice); });
  pod.volumes = dice.some([&] {
    return PodVolume{dice.text(), dice.one_of<VolumeKind>(v1::PodVolume::Kind_MAX), dice.coin(),
                     dice.coin(), dice.maybe_quantity()};
  });
  pod.tolerations = dice.some([&] {
    return Toleration{dice.text(), dice.text(), dice.text(), dice.text()};
  });
  const auto value = [&] { return dice.text().substr(0, PodAnnotations::kValueMax); };
  pod.annotations = {dice.maybe(value), dice.maybe(value), dice.maybe(value)};
  return pod;
}

Observation random_observation(Dice& dice) {
  Observation observation;
  observation.at = dice.time();
  observation.wake = {dice.one_of<WakeSource>(v1::Wake::Source_MAX), dice.time(),
                      dice.maybe([&] { return CgroupId{dice.inode()}; }), dice.maybe_bytes()};
  observation.node = random_node(dice);
  observation.pods = dice.maybe([&] { return random_cgroup(dice); });
  observation.watched = dice.some([&] { return random_cgroup(dice); });
  observation.filesystems = random_filesystems(dice);
  observation.tasks = {dice.maybe_integer(), dice.maybe_integer(), dice.maybe_time()};
  observation.reclaim = dice.one_of<ReclaimState>(v1::Observation::ReclaimState_MAX);
  observation.disk_usage_read = dice.coin();
  observation.workloads =
      dice.maybe([&] { return dice.some([&] { return random_sample(dice); }); });
  observation.kills = dice.some([&] {
    return KillProgress{CgroupId{dice.inode()},
                        dice.text(),
                        dice.one_of<KillState>(v1::KillProgress::State_MAX),
                        dice.time(),
                        dice.bytes(),
                        dice.maybe_time(),
                        dice.bytes(),
                        dice.bytes()};
  });
  observation.hooks = dice.some([&] {
    return HookProgress{dice.inode(),
                        dice.text(),
                        dice.text(),
                        dice.one_of<HookState>(v1::HookProgress::State_MAX),
                        dice.time(),
                        Duration(dice.small()),
                        dice.maybe([&] { return static_cast<int>(dice.below(256)); }),
                        dice.text()};
  });
  observation.pressed = dice.some([&] {
    return PressedContainer{dice.text(),
                            CgroupId{dice.inode()},
                            dice.coin() ? PressureStage::evict : PressureStage::kill,
                            dice.one_of<PressureSignal>(3),
                            0.5,
                            0.25,
                            Duration(dice.small()),
                            dice.time()};
  });
  observation.kinds = dice.maybe([&] { return random_kinds(dice); });
  observation.notes = dice.some([&] { return SourceNote{dice.text(), dice.text()}; });
  if (dice.coin()) observation.rules = random_rule_observation(dice);
  return observation;
}

Decision random_decision(Dice& dice) {
  Decision decision;
  decision.action = dice.one_of<Action>(v1::Decision::Action_MAX);
  decision.reason = dice.one_of<Reason>(v1::Decision::Reason_MAX);
  decision.evidence = dice.some([&] { return random_evidence(dice); });
  if (!decision.evidence.empty() && dice.coin()) {
    decision.driving = dice.below(decision.evidence.size());
  }
  decision.considered = dice.some([&] { return random_candidate(dice); });
  if (const std::size_t candidates = decision.considered.size(); candidates > 0) {
    decision.evictions = dice.some([&] { return random_eviction(dice, candidates); });
  }
  decision.node_reclaim =
      dice.some([&] { return dice.one_of<ReclaimStep>(v1::Decision::ReclaimStep_MAX); });
  for (ConditionStatus& status : decision.conditions) {
    status.status = dice.coin();
    status.changed = dice.coin();
    status.last_met = dice.maybe_time();
  }
  decision.damage = dice.maybe([&] {
    return Damage{dice.count(),       dice.bytes(),       dice.bytes(),
                  dice.bytes(),       dice.maybe_bytes(), dice.maybe_bytes(),
                  dice.maybe_bytes(), dice.maybe_bytes(), dice.coin()};
  });
  decision.rulesets = dice.some([&] { return random_rule_report(dice); });
  if (!decision.rulesets.empty() && dice.coin()) {
    decision.ruleset = dice.below(decision.rulesets.size());
  }
  return decision;
}

ProcessSample random_process(Dice& dice) {
  ProcessSample process;
  process.id = random_process_id(dice);
  process.cgroup.inode = dice.inode();
  process.memory_id = dice.inode();
  process.memory = random_memory(dice);
  process.oom_score_adj = dice.small();
  process.uid = dice.count();
  process.unkillable = dice.one_of<Unkillable>(v1::ProcessSample::Unkillable_MAX);
  process.oom_origin = dice.coin();
  process.oom_victim = dice.coin();
  process.oom_victim_reaped = dice.coin();
  process.dying = dice.coin();
  process.nodes_allowed = dice.inode();
  process.nodes_bound = dice.inode();
  process.order = dice.inode();
  process.comm = random_comm(dice);
  return process;
}

OomScene random_scene(Dice& dice) {
  OomScene scene;
  scene.domain = {dice.one_of<Constraint>(v1::OomDomain::Constraint_MAX),
                  CgroupId{dice.inode()},
                  dice.text(),
                  dice.integer(),
                  dice.inode(),
                  dice.coin()};
  scene.settings = {dice.coin(), dice.small()};
  for (std::size_t i = dice.below(4); i > 0; --i) {
    scene.cgroups.push_back(random_oom_cgroup(dice, scene.cgroups.size()));
  }
  scene.processes = dice.some([&] { return random_process(dice); });
  scene.allocating = dice.maybe([&] { return dice.small(); });
  return scene;
}

OomPrediction random_prediction(Dice& dice) {
  OomPrediction prediction;
  prediction.verdict = dice.one_of<OomVerdict>(v1::OomPrediction::Verdict_MAX);
  prediction.victim = dice.maybe([&] { return random_choice(dice); });
  prediction.runner_up = dice.maybe([&] { return random_choice(dice); });
  prediction.tied = dice.coin();
  prediction.group = dice.maybe([&] { return CgroupId{dice.inode()}; });
  prediction.also = dice.some([&] { return std::size_t{dice.count()}; });
  return prediction;
}

OomKill random_oom_kill(Dice& dice) {
  OomKill kill;
  kill.event = random_event(dice);
  kill.forecast = dice.maybe([&] {
    return OomForecast{dice.time(), dice.one_of<OomVerdict>(v1::OomPrediction::Verdict_MAX),
                       dice.maybe([&] { return random_process_id(dice); }), dice.coin()};
  });
  kill.inaction = dice.one_of<Inaction>(v1::OomKill::Inaction_MAX);
  kill.since_crossing = dice.maybe([&] { return dice.duration(); });
  kill.agent_away = dice.maybe([&] { return dice.duration(); });
  return kill;
}

CrossingBounds random_crossing(Dice& dice) {
  CrossingBounds crossing;
  crossing.above = dice.maybe([&] {
    return CrossingBounds::Reading{dice.time(), dice.maybe_integer()};
  });
  crossing.below = {dice.time(), dice.maybe_integer()};
  crossing.seen = dice.one_of<CrossingOrigin>(v1::CrossingBounds::Seen_MAX);
  return crossing;
}

Record random_record(Dice& dice) {
  Record record;
  record.sequence = dice.inode();
  record.wall_time_ns = dice.integer();
  record.observation = random_observation(dice);
  record.decision = random_decision(dice);
  record.stages = {dice.time(), dice.time(), dice.time(), dice.time()};
  record.outcome = dice.maybe([&] { return random_outcome(dice); });
  record.oom_kill = dice.maybe([&] { return random_oom_kill(dice); });
  record.prepared = dice.maybe([&] { return Prepared{dice.duration(), dice.inode()}; });
  record.crossing = dice.maybe([&] { return random_crossing(dice); });
  record.begun = dice.maybe([&] {
    return BegunKill{dice.coin(), dice.one_of<KillState>(v1::KillProgress::State_MAX)};
  });
  return record;
}

}  // namespace forestall::test
