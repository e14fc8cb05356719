// SPDX-License-Identifier: Apache-2.0
// Observations. They can also be written by hand, so from_proto() requires only the time.
#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

v1::NodeSample to_proto(const NodeSample& node) {
  v1::NodeSample out;
  if (node.capacity) out.set_capacity_bytes(node.capacity->count);
  if (node.usage) out.set_usage_bytes(node.usage->count);
  if (node.inactive_file) out.set_inactive_file_bytes(node.inactive_file->count);
  if (node.kernel_available) out.set_kernel_available_bytes(node.kernel_available->count);
  if (node.swap_total) out.set_swap_total_bytes(node.swap_total->count);
  if (node.swap_free) out.set_swap_free_bytes(node.swap_free->count);
  if (node.at) out.set_at_ns(to_ns(*node.at));
  return out;
}

v1::FilesystemSample to_proto(const FilesystemSample& sample) {
  v1::FilesystemSample out;
  if (sample.available) out.set_available_bytes(sample.available->count);
  if (sample.capacity) out.set_capacity_bytes(sample.capacity->count);
  if (sample.inodes_free) out.set_inodes_free(*sample.inodes_free);
  if (sample.inodes) out.set_inodes(*sample.inodes);
  if (sample.at) out.set_at_ns(to_ns(*sample.at));
  return out;
}

v1::FilesystemSamples to_proto(const FilesystemSamples& samples) {
  v1::FilesystemSamples out;
  if (samples.layout) out.set_layout(to_enum<v1::FilesystemSamples::Layout>(*samples.layout));
  if (samples.nodefs) *out.mutable_nodefs() = to_proto(*samples.nodefs);
  if (samples.imagefs) *out.mutable_imagefs() = to_proto(*samples.imagefs);
  if (samples.containerfs) *out.mutable_containerfs() = to_proto(*samples.containerfs);
  return out;
}

v1::TaskSample to_proto(const TaskSample& tasks) {
  v1::TaskSample out;
  if (tasks.capacity) out.set_capacity(*tasks.capacity);
  if (tasks.running) out.set_running(*tasks.running);
  if (tasks.at) out.set_at_ns(to_ns(*tasks.at));
  return out;
}

Result<Wake> from_proto(const v1::Wake& message, MonotonicTime at) {
  Wake wake;
  wake.source =
      TRY(from_enum_or(message.source(), v1::Wake::Source_MAX, "source", WakeSource::recheck));
  wake.at = message.has_at_ns() ? from_ns(message.at_ns()) : at;
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
  if (message.has_at_ns()) node.at = from_ns(message.at_ns());
  return node;
}

CgroupSample from_proto(const v1::CgroupSample& message) {
  CgroupSample sample;
  sample.path = message.path();
  sample.id = message.has_cgroup_id() ? CgroupId{message.cgroup_id()} : id_of_path(sample.path);
  if (message.has_usage_bytes()) sample.usage = Bytes{message.usage_bytes()};
  if (message.has_inactive_file_bytes()) {
    sample.inactive_file = Bytes{message.inactive_file_bytes()};
  }
  if (message.has_limit_bytes()) sample.limit = Bytes{message.limit_bytes()};
  sample.threshold = message.threshold();
  if (message.has_at_ns()) sample.at = from_ns(message.at_ns());
  return sample;
}

FilesystemSample from_proto(const v1::FilesystemSample& message) {
  FilesystemSample sample;
  if (message.has_available_bytes()) sample.available = Bytes{message.available_bytes()};
  if (message.has_capacity_bytes()) sample.capacity = Bytes{message.capacity_bytes()};
  if (message.has_inodes_free()) sample.inodes_free = message.inodes_free();
  if (message.has_inodes()) sample.inodes = message.inodes();
  if (message.has_at_ns()) sample.at = from_ns(message.at_ns());
  return sample;
}

Result<FilesystemSamples> from_proto(const v1::FilesystemSamples& message) {
  FilesystemSamples samples;
  if (message.layout() != v1::FilesystemSamples::LAYOUT_UNSPECIFIED) {
    samples.layout = TRY(
        from_enum<FilesystemLayout>(message.layout(), v1::FilesystemSamples::Layout_MAX, "layout"));
  }
  if (message.has_nodefs()) samples.nodefs = from_proto(message.nodefs());
  if (message.has_imagefs()) samples.imagefs = from_proto(message.imagefs());
  if (message.has_containerfs()) samples.containerfs = from_proto(message.containerfs());
  return samples;
}

TaskSample from_proto(const v1::TaskSample& message) {
  TaskSample tasks;
  if (message.has_capacity()) tasks.capacity = message.capacity();
  if (message.has_running()) tasks.running = message.running();
  if (message.has_at_ns()) tasks.at = from_ns(message.at_ns());
  return tasks;
}

Result<void> read_workloads(const v1::Observation& message, Observation& observation) {
  const bool some = !message.workloads().empty();
  if (!(message.has_workloads_read() ? message.workloads_read() : some)) {
    if (some) return error("workloads: present, although workloadsRead is false");
    return {};
  }
  const std::string_view pods =
      observation.pods ? std::string_view(observation.pods->path) : kDefaultPodsCgroup;
  observation.workloads.emplace();
  return read_each(message.workloads(), *observation.workloads, "workloads",
                   [&](const v1::WorkloadSample& each) { return sample_from_proto(each, pods); });
}

bool disk_usage_was_read(const v1::Observation& message) {
  if (message.has_disk_usage_read()) return message.disk_usage_read();
  for (const v1::WorkloadSample& sample : message.workloads()) {
    if (sample.has_statistics()) return true;
  }
  return false;
}

// A kill without a start time began at the time of the observation.
Result<KillProgress> begun_by(MonotonicTime at, const v1::KillProgress& message) {
  KillProgress kill = TRY(messages::from_proto(message));
  if (!message.has_started_ns()) kill.started = at;
  return kill;
}

v1::HookProgress hook_message(const HookProgress& hook) {
  v1::HookProgress out;
  out.set_run(hook.run);
  out.set_hook(text::to_utf8(hook.hook));
  out.set_cgroup(text::to_utf8(hook.cgroup));
  out.set_state(to_enum<v1::HookProgress::State>(hook.state));
  out.set_started_ns(to_ns(hook.started));
  out.set_took_ns(hook.took.count());
  if (hook.exit_code) out.set_exit_code(*hook.exit_code);
  out.set_problem(text::to_utf8(hook.problem));
  return out;
}

v1::PressedContainer pressed_message(const PressedContainer& pressed) {
  v1::PressedContainer out;
  out.set_subject(text::to_utf8(pressed.subject));
  out.set_workload_id(pressed.workload.inode);
  out.set_stage(std::string(to_string(pressed.stage)));
  out.set_signal(std::string(to_string(pressed.signal)));
  out.set_value(pressed.value);
  out.set_threshold(pressed.threshold);
  out.set_pressed_ns(pressed.over_for.count());
  out.set_at_ns(to_ns(pressed.at));
  return out;
}

Result<PressedContainer> pressed_from(const v1::PressedContainer& message) {
  const auto stage = parse_pressure_stage(message.stage());
  if (!stage || *stage < PressureStage::evict) {
    return error("stage: must be evict or kill, found '" + message.stage() + "'");
  }
  const auto signal = parse_pressure_signal(message.signal());
  if (!signal) return error("signal: unknown '" + message.signal() + "'");
  return PressedContainer{message.subject(),
                          CgroupId{message.workload_id()},
                          *stage,
                          *signal,
                          message.value(),
                          message.threshold(),
                          Duration(message.pressed_ns()),
                          from_ns(message.at_ns())};
}

Result<HookProgress> hook_from(const v1::HookProgress& message) {
  HookProgress hook;
  hook.run = message.run();
  hook.hook = message.hook();
  hook.cgroup = message.cgroup();
  hook.state = TRY(from_enum<HookState>(message.state(), v1::HookProgress::State_MAX, "state"));
  hook.started = from_ns(message.started_ns());
  hook.took = Duration(message.took_ns());
  if (message.has_exit_code()) hook.exit_code = message.exit_code();
  hook.problem = message.problem();
  return hook;
}

}  // namespace

v1::CgroupSample to_proto(const CgroupSample& sample) {
  v1::CgroupSample out;
  out.set_cgroup_id(sample.id.inode);
  out.set_path(text::to_utf8(sample.path));
  if (sample.usage) out.set_usage_bytes(sample.usage->count);
  if (sample.inactive_file) out.set_inactive_file_bytes(sample.inactive_file->count);
  if (sample.limit) out.set_limit_bytes(sample.limit->count);
  out.set_threshold(static_cast<std::uint32_t>(sample.threshold));
  if (sample.at) out.set_at_ns(to_ns(*sample.at));
  return out;
}

v1::Wake to_proto(const Wake& wake) {
  v1::Wake out;
  out.set_source(to_enum<v1::Wake::Source>(wake.source));
  out.set_at_ns(to_ns(wake.at));
  if (wake.cgroup) out.set_cgroup_id(wake.cgroup->inode);
  if (wake.usage) out.set_usage_bytes(wake.usage->count);
  return out;
}

v1::SourceNote to_proto(const SourceNote& note) {
  v1::SourceNote out;
  out.set_subject(text::to_utf8(note.subject));
  out.set_problem(text::to_utf8(note.problem));
  return out;
}

void put_without_workloads(const Observation& observation, v1::Observation& out) {
  out.set_at_ns(to_ns(observation.at));
  *out.mutable_wake() = to_proto(observation.wake);
  *out.mutable_node() = to_proto(observation.node);
  if (observation.pods) *out.mutable_pods() = to_proto(*observation.pods);
  for (const CgroupSample& sample : observation.watched) *out.add_watched() = to_proto(sample);
  *out.mutable_filesystems() = to_proto(observation.filesystems);
  *out.mutable_tasks() = to_proto(observation.tasks);
  out.set_reclaim(to_enum<v1::Observation::ReclaimState>(observation.reclaim));
  out.set_disk_usage_read(observation.disk_usage_read);
  out.set_workloads_read(observation.workloads.has_value());
  for (const KillProgress& kill : observation.kills) *out.add_kills() = to_proto(kill);
  for (const HookProgress& hook : observation.hooks) *out.add_hooks() = hook_message(hook);
  for (const PressedContainer& each : observation.pressed)
    *out.add_pressed() = pressed_message(each);
  for (const SourceNote& note : observation.notes) *out.add_notes() = to_proto(note);
  if (observation.kinds) *out.mutable_kinds() = messages::to_proto(*observation.kinds);
  if (observation.rules) *out.mutable_rules() = messages::to_proto(*observation.rules);
}

v1::Observation to_proto(const Observation& observation) {
  v1::Observation out;
  put_without_workloads(observation, out);
  if (observation.workloads) {
    for (const WorkloadSample& sample : *observation.workloads) {
      *out.add_workloads() = to_proto(sample);
    }
  }
  return out;
}

Result<Observation> without_workloads_from_proto(const v1::Observation& message) {
  if (!message.has_at_ns()) return error("atNs: missing");
  Observation observation;
  observation.at = from_ns(message.at_ns());
  observation.wake = TRY(inside("wake", from_proto(message.wake(), observation.at)));
  observation.node = from_proto(message.node());
  if (message.has_pods()) observation.pods = from_proto(message.pods());
  for (const v1::CgroupSample& sample : message.watched()) {
    observation.watched.push_back(from_proto(sample));
  }
  observation.filesystems = TRY(inside("filesystems", from_proto(message.filesystems())));
  observation.tasks = from_proto(message.tasks());
  observation.reclaim = TRY(from_enum_or(message.reclaim(), v1::Observation::ReclaimState_MAX,
                                         "reclaim", ReclaimState::unavailable));
  observation.disk_usage_read = disk_usage_was_read(message);
  TRY(read_each(message.kills(), observation.kills, "kills",
                [&](const v1::KillProgress& each) { return begun_by(observation.at, each); }));
  TRY(read_each(message.hooks(), observation.hooks, "hooks", hook_from));
  TRY(read_each(message.pressed(), observation.pressed, "pressed", pressed_from));
  for (const v1::SourceNote& note : message.notes()) {
    observation.notes.push_back({note.subject(), note.problem()});
  }
  if (message.has_kinds()) observation.kinds = messages::from_proto(message.kinds());
  if (message.has_rules()) observation.rules = messages::from_proto(message.rules());
  return observation;
}

Result<Observation> from_proto(const v1::Observation& message) {
  Observation observation = TRY(without_workloads_from_proto(message));
  TRY(read_workloads(message, observation));
  return observation;
}

}  // namespace forestall::messages
