// SPDX-License-Identifier: Apache-2.0
#include "policy/signals.h"

#include "model/until_oom.h"

namespace forestall::policy {
namespace {

SignalState memory(const MemoryLevel& level, MonotonicTime at) {
  return {level.capacity.count, level.available().count, at, level};
}

std::optional<SignalState> space(const FilesystemSample& sample, Unit unit, MonotonicTime at) {
  if (unit == Unit::inodes) {
    if (!sample.inodes || !sample.inodes_free) return std::nullopt;
    return SignalState{*sample.inodes, *sample.inodes_free, at, std::nullopt};
  }
  if (!sample.capacity || !sample.available) return std::nullopt;
  return SignalState{sample.capacity->count, sample.available->count, at, std::nullopt};
}

std::optional<SignalState> tasks(const TaskSample& sample, MonotonicTime at) {
  if (!sample.capacity || !sample.running) return std::nullopt;
  const Bytes available = subtract(Bytes{*sample.capacity}, Bytes{*sample.running});
  return SignalState{*sample.capacity, available.count, at, std::nullopt};
}

// A node without swap has no amount that could be short.
std::optional<SignalState> swap(const NodeSample& sample, MonotonicTime at) {
  if (!sample.swap_total || !sample.swap_free || *sample.swap_total <= Bytes{0}) {
    return std::nullopt;
  }
  return SignalState{sample.swap_total->count, sample.swap_free->count, at, std::nullopt};
}

}  // namespace

std::optional<MemoryLevel> node_level(const NodeSample& node) {
  if (!node.capacity || !node.usage || !node.inactive_file) return std::nullopt;
  return MemoryLevel{*node.capacity, *node.usage, *node.inactive_file};
}

std::optional<MemoryLevel> until_oom_level(const NodeSample& node) {
  if (!node.capacity || !node.kernel_available || !node.swap_total || !node.swap_free) {
    return std::nullopt;
  }
  const Bytes capacity = add(*node.capacity, *node.swap_total);
  return MemoryLevel{capacity, subtract(capacity, *until_oom(node)), {0}};
}

std::optional<MemoryLevel> cgroup_level(const CgroupSample& cgroup, std::optional<Bytes> declared) {
  const std::optional<Bytes> capacity = declared ? declared : cgroup.limit;
  if (!capacity || !cgroup.usage || !cgroup.inactive_file) return std::nullopt;
  return MemoryLevel{*capacity, *cgroup.usage, *cgroup.inactive_file};
}

std::optional<MemoryLevel> level_of(Signal signal, const NodeSample& node) {
  switch (row_of(signal).measure) {
    case Measure::working_set: return node_level(node);
    case Measure::memory_and_swap: return until_oom_level(node);
    case Measure::swap:
    case Measure::filesystem:
    case Measure::tasks: break;
  }
  return std::nullopt;
}

std::optional<SignalState> node_state(Signal signal, const Observation& observation) {
  const SignalRow& row = row_of(signal);
  if (row.subject != SubjectKind::node) return std::nullopt;
  switch (row.measure) {
    case Measure::filesystem: {
      const std::optional<FilesystemSample>& sample = observation.filesystems.of(*row.filesystem);
      if (!sample) return std::nullopt;
      return space(*sample, row.unit, sample->at.value_or(observation.at));
    }
    case Measure::tasks:
      return tasks(observation.tasks, observation.tasks.at.value_or(observation.at));
    case Measure::swap: return swap(observation.node, observation.node.at.value_or(observation.at));
    case Measure::working_set:
    case Measure::memory_and_swap: break;
  }
  const auto level = level_of(signal, observation.node);
  if (!level) return std::nullopt;
  return memory(*level, observation.node.at.value_or(observation.at));
}

std::optional<SignalState> signal_state(Signal signal, const Observation& observation) {
  if (row_of(signal).subject != SubjectKind::pods_cgroup) return node_state(signal, observation);
  if (!observation.pods) return std::nullopt;
  return cgroup_state(*observation.pods, std::nullopt, observation);
}

std::optional<SignalState> cgroup_state(const CgroupSample& cgroup, std::optional<Bytes> declared,
                                        const Observation& observation) {
  const auto level = cgroup_level(cgroup, declared);
  if (!level) return std::nullopt;
  return memory(*level, cgroup.at.value_or(observation.at));
}

std::optional<SignalState> own_limit_state(const CgroupSample& cgroup, const Threshold& threshold,
                                           const Observation& observation) {
  if (cgroup.inactive_file) return cgroup_state(cgroup, std::nullopt, observation);
  CgroupSample bound = cgroup;
  bound.inactive_file = Bytes{0};
  auto state = cgroup_state(bound, std::nullopt, observation);
  if (state && decimal(state->available) < threshold.limit.of(state->capacity)) return {};
  return state;
}

}  // namespace forestall::policy
