// SPDX-License-Identifier: Apache-2.0
// Literal worlds for policy tests: a node, cgroups, workloads and kills in one expression each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "model/observation.h"

namespace forestall {

// Readable failures.
inline std::ostream& operator<<(std::ostream& out, Bytes bytes) {
  return out << bytes.count;
}

namespace policy {

// The inode of a path: one path, one cgroup, in the whole test.
inline CgroupId id_of(const std::string& path) {
  return {std::hash<std::string>{}(path) | 1};
}

inline WorkloadSample workload(const std::string& path, std::optional<Bytes> working_set,
                               std::optional<std::int32_t> priority = std::nullopt,
                               std::optional<Bytes> request = std::nullopt) {
  WorkloadSample sample;
  sample.workload.cgroup = id_of(path);
  sample.workload.path = path;
  sample.workload.name = path.substr(path.rfind('/') + 1);
  sample.workload.priority = priority;
  sample.workload.memory_request = request;
  sample.usage = working_set;
  if (working_set) sample.inactive_file = Bytes{0};
  sample.processes = 1;
  return sample;
}

inline WorkloadSample with_protection(WorkloadSample sample, Protection protection) {
  sample.workload.protection = protection;
  return sample;
}

inline WorkloadSample with_processes(WorkloadSample sample, std::optional<std::uint64_t> count) {
  sample.processes = count;
  return sample;
}

inline KillProgress kill(const std::string& path, Bytes remaining,
                         KillState state = KillState::in_flight) {
  return {.cgroup = id_of(path),
          .path = path,
          .state = state,
          .started = {},
          .remaining = remaining,
          .kill_at = {}};
}

inline NodeSample node(Bytes capacity, Bytes available, Bytes inactive_file = {0}) {
  NodeSample sample;
  sample.capacity = capacity;
  sample.usage = capacity - available + inactive_file;
  sample.inactive_file = inactive_file;
  return sample;
}

inline CgroupSample cgroup(const std::string& path, Bytes limit, Bytes available,
                           std::size_t threshold = 0) {
  return {.id = id_of(path),
          .path = path,
          .usage = limit - available,
          .inactive_file = Bytes{0},
          .limit = limit,
          .at = {},
          .threshold = threshold};
}

inline Threshold hard(Signal signal, Bytes limit, std::optional<Bytes> min_reclaim = {}) {
  Threshold threshold;
  threshold.signal = signal;
  threshold.limit = Limit::bytes(limit);
  if (min_reclaim) threshold.min_reclaim = Limit::bytes(*min_reclaim);
  return threshold;
}

inline Threshold soft(Threshold threshold) {
  threshold.grace = std::chrono::seconds(30);
  return threshold;
}

inline Config config(std::vector<Threshold> thresholds) {
  Config config;
  config.thresholds = std::move(thresholds);
  return config;
}

}  // namespace policy
}  // namespace forestall
