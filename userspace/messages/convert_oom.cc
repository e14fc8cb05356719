// SPDX-License-Identifier: Apache-2.0
// Processes as the kernel's OOM killer scores them, the scene of its choice, and predictions.
#include <algorithm>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

// Unset means all nodes.
template <typename Message>
NodeMask nodes_of(bool given, const Message& mask) {
  return given ? mask : kAllNodes;
}

Result<OomDomain> from_proto(const v1::OomDomain& message) {
  OomDomain domain;
  domain.constraint = TRY(from_enum_or(message.constraint(), v1::OomDomain::Constraint_MAX,
                                       "constraint", Constraint::none));
  if (message.has_cgroup_id()) domain.cgroup.inode = message.cgroup_id();
  domain.path = message.path();
  domain.total_pages = message.total_pages();
  domain.nodes = nodes_of(message.has_nodes(), message.nodes());
  domain.kill_disabled = message.kill_disabled();
  return domain;
}

v1::OomDomain to_proto(const OomDomain& domain) {
  v1::OomDomain out;
  out.set_constraint(to_enum<v1::OomDomain::Constraint>(domain.constraint));
  if (domain.cgroup.inode != 0) out.set_cgroup_id(domain.cgroup.inode);
  out.set_path(text::to_utf8(domain.path));
  out.set_total_pages(domain.total_pages);
  if (domain.nodes != kAllNodes) out.set_nodes(domain.nodes);
  out.set_kill_disabled(domain.kill_disabled);
  return out;
}

v1::OomCgroup to_proto(const OomCgroup& cgroup) {
  v1::OomCgroup out;
  out.set_cgroup_id(cgroup.id.inode);
  out.set_path(text::to_utf8(cgroup.path));
  if (cgroup.parent) out.set_parent(static_cast<std::uint32_t>(*cgroup.parent));
  out.set_oom_group(cgroup.oom_group);
  return out;
}

// `before` is the number of preceding cgroups of the scene.
Result<OomCgroup> from_proto(const v1::OomCgroup& message, std::size_t before) {
  OomCgroup cgroup;
  cgroup.id.inode = message.cgroup_id();
  cgroup.path = message.path();
  if (message.has_parent()) {
    if (message.parent() >= before) {
      return error("parent: " + std::to_string(message.parent()) + " is not a preceding cgroup");
    }
    cgroup.parent = message.parent();
  }
  cgroup.oom_group = message.oom_group();
  return cgroup;
}

v1::OomChoice to_proto(const OomChoice& choice) {
  v1::OomChoice out;
  out.set_process(static_cast<std::uint32_t>(choice.process));
  out.set_points(choice.points);
  return out;
}

OomChoice from_proto(const v1::OomChoice& message) {
  return {message.process(), message.points()};
}

}  // namespace

v1::ProcessId to_proto(const ProcessId& id) {
  v1::ProcessId out;
  out.set_pid(id.pid);
  if (id.start_ticks != 0) out.set_start_ticks(id.start_ticks);
  return out;
}

ProcessId from_proto(const v1::ProcessId& message) {
  return {message.pid(), message.start_ticks()};
}

v1::ProcessMemory to_proto(const ProcessMemory& memory) {
  v1::ProcessMemory out;
  out.set_file_pages(memory.file);
  out.set_anon_pages(memory.anon);
  out.set_shmem_pages(memory.shmem);
  out.set_swap_pages(memory.swap);
  out.set_page_table_pages(memory.page_tables);
  return out;
}

ProcessMemory from_proto(const v1::ProcessMemory& message) {
  return {.file = message.file_pages(),
          .anon = message.anon_pages(),
          .shmem = message.shmem_pages(),
          .swap = message.swap_pages(),
          .page_tables = message.page_table_pages()};
}

std::array<char, 16> comm_of(std::string_view name) {
  std::array<char, 16> comm{};
  std::size_t length = std::min(name.size(), comm.size() - 1);
  // Do not split a UTF-8 character: only its first byte is not 10xxxxxx.
  while (length < name.size() && length > 0 && (name[length] & 0xC0) == 0x80) --length;
  std::copy_n(name.begin(), length, comm.begin());
  return comm;
}

v1::ProcessSample to_proto(const ProcessSample& process) {
  v1::ProcessSample out;
  *out.mutable_id() = to_proto(process.id);
  out.set_name(text::to_utf8(process.name()));
  if (process.cgroup.inode != 0) out.set_cgroup_id(process.cgroup.inode);
  if (process.memory_id != 0) out.set_memory_id(process.memory_id);
  *out.mutable_memory() = to_proto(process.memory);
  out.set_oom_score_adj(process.oom_score_adj);
  out.set_uid(process.uid);
  out.set_unkillable(to_enum<v1::ProcessSample::Unkillable>(process.unkillable));
  out.set_oom_origin(process.oom_origin);
  out.set_oom_victim(process.oom_victim);
  out.set_oom_victim_reaped(process.oom_victim_reaped);
  out.set_dying(process.dying);
  if (process.nodes_allowed != kAllNodes) out.set_nodes_allowed(process.nodes_allowed);
  if (process.nodes_bound != kAllNodes) out.set_nodes_bound(process.nodes_bound);
  out.set_order(process.order);
  return out;
}

Result<ProcessSample> from_proto(const v1::ProcessSample& message) {
  ProcessSample process;
  process.id = from_proto(message.id());
  process.comm = comm_of(message.name());
  if (message.has_cgroup_id()) process.cgroup.inode = message.cgroup_id();
  process.memory_id = message.memory_id();
  process.memory = from_proto(message.memory());
  process.oom_score_adj = message.oom_score_adj();
  process.uid = message.uid();
  process.unkillable = TRY(from_enum_or(message.unkillable(), v1::ProcessSample::Unkillable_MAX,
                                        "unkillable", Unkillable::none));
  process.oom_origin = message.oom_origin();
  process.oom_victim = message.oom_victim();
  process.oom_victim_reaped = message.oom_victim_reaped();
  process.dying = message.dying();
  process.nodes_allowed = nodes_of(message.has_nodes_allowed(), message.nodes_allowed());
  process.nodes_bound = nodes_of(message.has_nodes_bound(), message.nodes_bound());
  process.order = message.order();
  return process;
}

v1::OomScene to_proto(const OomScene& scene) {
  v1::OomScene out;
  *out.mutable_domain() = to_proto(scene.domain);
  out.mutable_settings()->set_kill_allocating_task(scene.settings.kill_allocating_task);
  out.mutable_settings()->set_panic_on_oom(scene.settings.panic_on_oom);
  for (const OomCgroup& cgroup : scene.cgroups) *out.add_cgroups() = to_proto(cgroup);
  for (const ProcessSample& process : scene.processes) *out.add_processes() = to_proto(process);
  if (scene.allocating) out.set_allocating_pid(*scene.allocating);
  return out;
}

Result<OomScene> from_proto(const v1::OomScene& message) {
  OomScene scene;
  scene.domain = TRY(inside("domain", from_proto(message.domain())));
  scene.settings = {message.settings().kill_allocating_task(), message.settings().panic_on_oom()};
  TRY(read_each(message.cgroups(), scene.cgroups, "cgroups",
                [&](const v1::OomCgroup& each) { return from_proto(each, scene.cgroups.size()); }));
  TRY(read_each(message.processes(), scene.processes, "processes",
                [](const v1::ProcessSample& each) { return from_proto(each); }));
  if (message.has_allocating_pid()) scene.allocating = message.allocating_pid();
  return scene;
}

v1::OomPrediction to_proto(const OomPrediction& prediction) {
  v1::OomPrediction out;
  out.set_verdict(to_enum<v1::OomPrediction::Verdict>(prediction.verdict));
  if (prediction.victim) *out.mutable_victim() = to_proto(*prediction.victim);
  if (prediction.runner_up) *out.mutable_runner_up() = to_proto(*prediction.runner_up);
  out.set_tied(prediction.tied);
  if (prediction.group) out.set_group_cgroup_id(prediction.group->inode);
  for (const std::size_t each : prediction.also) {
    out.add_also(static_cast<std::uint32_t>(each));
  }
  return out;
}

Result<OomPrediction> from_proto(const v1::OomPrediction& message) {
  OomPrediction prediction;
  prediction.verdict =
      TRY(from_enum<OomVerdict>(message.verdict(), v1::OomPrediction::Verdict_MAX, "verdict"));
  if (message.has_victim()) prediction.victim = from_proto(message.victim());
  if (message.has_runner_up()) prediction.runner_up = from_proto(message.runner_up());
  prediction.tied = message.tied();
  if (message.has_group_cgroup_id()) prediction.group = CgroupId{message.group_cgroup_id()};
  prediction.also.assign(message.also().begin(), message.also().end());
  return prediction;
}

}  // namespace forestall::messages
