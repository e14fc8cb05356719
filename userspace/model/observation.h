// SPDX-License-Identifier: Apache-2.0
// An observation: all input of the policy, read at one time, with that time inside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/shared_value.h"
#include "model/container_pressure.h"
#include "model/eviction.h"
#include "model/filesystem.h"
#include "model/hook.h"
#include "model/kill.h"
#include "model/memory_kinds.h"
#include "model/rule_observation.h"
#include "model/wake.h"
#include "model/workload.h"

namespace forestall {

// Node-wide memory, with kubelet's definitions (formulas in policy/signals.h).
struct NodeSample {
  std::optional<Bytes> capacity;       // MemTotal
  std::optional<Bytes> usage;          // v1: root usage_in_bytes; v2: vmstat anon + file
  std::optional<Bytes> inactive_file;  // v1: root memory.stat; v2: vmstat
  std::optional<Bytes>
      kernel_available;  // MemAvailable: used by memory.untilOom and lifts of memory.high only
  std::optional<Bytes> swap_total;
  std::optional<Bytes> swap_free;
  std::optional<MonotonicTime> at;  // when it was read; nullopt: with the observation

  friend bool operator==(const NodeSample&, const NodeSample&) = default;
};

// One cgroup whose usage is compared with its limit: the pods cgroup or a watched one.
struct CgroupSample {
  CgroupId id;
  std::string path;
  std::optional<Bytes> usage;
  std::optional<Bytes> inactive_file;
  // Effective limit: the smallest of its own and its ancestors'. Nullopt: unlimited or unknown.
  std::optional<Bytes> limit;
  std::optional<MonotonicTime> at;  // when it was read; nullopt: with the observation
  // Index into Config::thresholds of the rule that watches it; unused for the pods cgroup.
  std::size_t threshold = 0;

  friend bool operator==(const CgroupSample&, const CgroupSample&) = default;
};

// A part of the observation that could not be read, and why. Reported and counted, never fatal.
struct SourceNote {
  std::string subject;  // file or cgroup
  std::string problem;

  friend bool operator==(const SourceNote&, const SourceNote&) = default;
};

struct Observation {
  MonotonicTime at;  // when reading began
  Wake wake;         // the reason for the evaluation
  NodeSample node;
  std::optional<CgroupSample> pods;   // the pods cgroup, if there is one
  std::vector<CgroupSample> watched;  // each cgroup that matches a watch rule
  FilesystemSamples filesystems;
  TaskSample tasks;
  ReclaimState reclaim = ReclaimState::unavailable;
  // Whether PodStatistics were read for the workloads. False while a walk over their files is
  // running: a threshold on a filesystem then waits for it.
  bool disk_usage_read = false;
  // Read only if a threshold is met (it is the expensive part). Nullopt means "not read", and the
  // policy answers `inspect`; empty means "there are none".
  std::optional<std::vector<WorkloadSample>> workloads;
  std::vector<KillProgress> kills;       // running and failed kills
  std::vector<HookProgress> hooks = {};  // prekill hooks that run, or ended lately
  // Containers under memory pressure whose pods are to be evicted, in the order of the response.
  std::vector<PressedContainer> pressed = {};
  std::vector<SourceNote> notes;
  // What the subject's memory consists of; read for decisions that hold a kill back.
  std::optional<MemoryKinds> kinds = std::nullopt;
  // What rulesets decide on; none: they are not evaluated on this observation.
  SharedValue<rulesets::RuleObservation> rules = {};

  friend bool operator==(const Observation&, const Observation&) = default;
};

}  // namespace forestall
