// SPDX-License-Identifier: Apache-2.0
// Workloads, their usage, and kills of them.
#include <memory>
#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

v1::ContainerSample to_proto(const ContainerSample& sample) {
  v1::ContainerSample out;
  out.set_name(text::to_utf8(sample.name));
  if (sample.working_set) out.set_working_set_bytes(sample.working_set->count);
  if (sample.rootfs) *out.mutable_rootfs() = messages::to_proto(*sample.rootfs);
  if (sample.logs) *out.mutable_logs() = messages::to_proto(*sample.logs);
  return out;
}

v1::VolumeSample to_proto(const VolumeSample& sample) {
  v1::VolumeSample out;
  out.set_name(text::to_utf8(sample.name));
  if (sample.usage.used) out.set_used_bytes(sample.usage.used->count);
  if (sample.usage.inodes) out.set_inodes(*sample.usage.inodes);
  return out;
}

// DiskUsage and VolumeSample have the same field names.
template <typename Message>
DiskUsage usage_of(const Message& message) {
  DiskUsage usage;
  if (message.has_used_bytes()) usage.used = Bytes{message.used_bytes()};
  if (message.has_inodes()) usage.inodes = message.inodes();
  return usage;
}

PodStatistics from_proto(const v1::PodStatistics& message) {
  PodStatistics statistics;
  statistics.containers.reserve(static_cast<std::size_t>(message.containers_size()));
  for (const v1::ContainerSample& each : message.containers()) {
    ContainerSample& sample = statistics.containers.emplace_back();
    sample.name = each.name();
    if (each.has_working_set_bytes()) sample.working_set = Bytes{each.working_set_bytes()};
    if (each.has_rootfs()) sample.rootfs = usage_of(each.rootfs());
    if (each.has_logs()) sample.logs = usage_of(each.logs());
  }
  statistics.volumes.reserve(static_cast<std::size_t>(message.volumes_size()));
  for (const v1::VolumeSample& each : message.volumes()) {
    statistics.volumes.push_back({each.name(), usage_of(each)});
  }
  if (message.has_ephemeral_storage()) {
    statistics.ephemeral_storage = usage_of(message.ephemeral_storage());
  }
  return statistics;
}

// Sets id, path and name, with their defaults.
void identify(const v1::Workload& message, std::string_view pods, Workload& workload) {
  if (message.has_path()) {
    workload.path = message.path();
  } else if (workload.kind == WorkloadKind::pod && workload.pod_uid) {
    workload.path = std::string(pods == "/" ? "" : pods) + "/pod" + *workload.pod_uid;
  }
  if (message.has_name()) {
    workload.name = message.name();
  } else {
    workload.name = workload.pod ? workload.pod->name : std::string(last_part(workload.path));
  }
  workload.cgroup =
      message.has_cgroup_id() ? CgroupId{message.cgroup_id()} : id_of_path(workload.path);
}

}  // namespace

v1::InferredFacts to_proto(const InferredFacts& facts) {
  v1::InferredFacts out;
  out.set_qos_class(std::string(to_string(facts.qos)));
  if (facts.oom_score_adj) out.set_oom_score_adj(*facts.oom_score_adj);
  if (facts.memory_request) out.set_memory_request_bytes(facts.memory_request->count);
  return out;
}

Result<InferredFacts> from_proto(const v1::InferredFacts& message) {
  InferredFacts facts;
  const auto qos = parse_qos_class(message.qos_class());
  if (!qos) return error("qosClass: unknown '" + message.qos_class() + "'");
  facts.qos = *qos;
  if (message.has_oom_score_adj()) facts.oom_score_adj = message.oom_score_adj();
  if (message.has_memory_request_bytes()) {
    facts.memory_request = Bytes{message.memory_request_bytes()};
  }
  return facts;
}

v1::DiskUsage to_proto(const DiskUsage& usage) {
  v1::DiskUsage out;
  if (usage.used) out.set_used_bytes(usage.used->count);
  if (usage.inodes) out.set_inodes(*usage.inodes);
  return out;
}

v1::PodStatistics to_proto(const PodStatistics& statistics) {
  v1::PodStatistics out;
  for (const ContainerSample& sample : statistics.containers) {
    *out.add_containers() = to_proto(sample);
  }
  for (const VolumeSample& sample : statistics.volumes) *out.add_volumes() = to_proto(sample);
  if (statistics.ephemeral_storage) {
    *out.mutable_ephemeral_storage() = to_proto(*statistics.ephemeral_storage);
  }
  return out;
}

v1::Workload to_proto(const Workload& workload) {
  v1::Workload out;
  out.set_cgroup_id(workload.cgroup.inode);
  out.set_path(text::to_utf8(workload.path));
  out.set_kind(to_enum<v1::Workload::Kind>(workload.kind));
  out.set_name(text::to_utf8(workload.name));
  if (workload.pod_uid) out.set_pod_uid(text::to_utf8(*workload.pod_uid));
  if (workload.priority) out.set_priority(*workload.priority);
  if (workload.memory_request) out.set_memory_request_bytes(workload.memory_request->count);
  out.set_protection(to_enum<v1::Workload::Protection>(workload.protection));
  if (workload.pod) *out.mutable_pod() = to_proto(*workload.pod);
  if (workload.inferred) *out.mutable_inferred() = to_proto(*workload.inferred);
  if (workload.preference != Preference::normal) {
    out.set_preference(to_enum<v1::Workload::Preference>(workload.preference));
  }
  return out;
}

void put_usage(const WorkloadSample& sample, v1::WorkloadSample& out) {
  if (sample.usage) out.set_usage_bytes(sample.usage->count);
  if (sample.inactive_file) out.set_inactive_file_bytes(sample.inactive_file->count);
  if (sample.processes) out.set_processes(*sample.processes);
  if (sample.statistics) *out.mutable_statistics() = to_proto(*sample.statistics);
  out.set_scored(sample.scored);
  if (sample.badness) {
    *out.mutable_badness()->mutable_process() = to_proto(sample.badness->process);
    out.mutable_badness()->set_points(sample.badness->points);
  }
  if (sample.growth) out.set_growth_bytes(sample.growth->count);
}

v1::WorkloadSample to_proto(const WorkloadSample& sample) {
  v1::WorkloadSample out;
  *out.mutable_workload() = to_proto(sample.workload);
  put_usage(sample, out);
  return out;
}

v1::KillProgress to_proto(const KillProgress& kill) {
  v1::KillProgress out;
  out.set_cgroup_id(kill.cgroup.inode);
  out.set_path(text::to_utf8(kill.path));
  out.set_state(to_enum<v1::KillProgress::State>(kill.state));
  out.set_started_ns(to_ns(kill.started));
  out.set_remaining_bytes(kill.remaining.count);
  if (kill.kill_at) out.set_kill_at_ns(to_ns(*kill.kill_at));
  out.set_expected_bytes(kill.expected.count);
  out.set_freed_bytes(kill.freed.count);
  return out;
}

Result<Workload> workload_from_proto(const v1::Workload& message, std::string_view pods) {
  Workload workload;
  const bool is_pod = message.has_pod_uid() || message.has_pod();
  workload.kind = TRY(from_enum_or(message.kind(), v1::Workload::Kind_MAX, "kind",
                                   is_pod ? WorkloadKind::pod : WorkloadKind::cgroup));
  if (message.has_pod()) {
    workload.pod = std::make_shared<const Pod>(TRY(inside("pod", from_proto(message.pod()))));
  }
  if (message.has_pod_uid()) {
    workload.pod_uid = message.pod_uid();
  } else if (workload.pod) {
    workload.pod_uid = workload.pod->uid;
  }
  identify(message, pods, workload);
  if (message.has_priority()) workload.priority = message.priority();
  if (message.has_memory_request_bytes()) {
    workload.memory_request = Bytes{message.memory_request_bytes()};
  }
  workload.protection = TRY(from_enum_or(message.protection(), v1::Workload::Protection_MAX,
                                         "protection", Protection::none));
  if (message.has_inferred()) {
    workload.inferred = TRY(inside("inferred", from_proto(message.inferred())));
  }
  workload.preference = TRY(from_enum_or(message.preference(), v1::Workload::Preference_MAX,
                                         "preference", Preference::normal));
  return workload;
}

Result<void> read_usage(const v1::WorkloadSample& message, WorkloadSample& sample) {
  if (message.has_usage_bytes()) sample.usage = Bytes{message.usage_bytes()};
  if (message.has_inactive_file_bytes()) {
    sample.inactive_file = Bytes{message.inactive_file_bytes()};
  }
  if (message.has_processes()) sample.processes = message.processes();
  if (message.has_statistics()) sample.statistics = from_proto(message.statistics());
  if (message.has_badness()) {
    if (message.has_scored() && !message.scored()) {
      return error("badness: present, although scored is false");
    }
    sample.badness = {from_proto(message.badness().process()), message.badness().points()};
  }
  sample.scored = message.scored() || message.has_badness();
  if (message.has_growth_bytes()) sample.growth = Bytes{message.growth_bytes()};
  return {};
}

Result<WorkloadSample> sample_from_proto(const v1::WorkloadSample& message, std::string_view pods) {
  if (!message.has_workload()) return error("workload: missing");
  WorkloadSample sample;
  sample.workload = TRY(inside("workload", workload_from_proto(message.workload(), pods)));
  TRY(read_usage(message, sample));
  return sample;
}

Result<KillState> kill_state_from_proto(int state) {
  return from_enum_or(state, v1::KillProgress::State_MAX, "state", KillState::in_flight);
}

Result<KillProgress> from_proto(const v1::KillProgress& message) {
  KillProgress kill;
  kill.path = message.path();
  kill.cgroup = message.has_cgroup_id() ? CgroupId{message.cgroup_id()} : id_of_path(kill.path);
  kill.state = TRY(kill_state_from_proto(message.state()));
  kill.started = from_ns(message.started_ns());
  kill.remaining = Bytes{message.remaining_bytes()};
  if (message.has_kill_at_ns()) kill.kill_at = from_ns(message.kill_at_ns());
  kill.expected = Bytes{message.expected_bytes()};
  kill.freed = Bytes{message.freed_bytes()};
  return kill;
}

}  // namespace forestall::messages
