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

inline WorkloadSample with_preference(WorkloadSample sample, Preference preference) {
  sample.workload.preference = preference;
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

// A node of 8 GiB.
inline Observation node_at(Bytes available) {
  Observation observation;
  observation.node = node(gib(8), available);
  return observation;
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

inline Threshold soft(Threshold threshold, Duration grace = std::chrono::seconds(30)) {
  threshold.grace = grace;
  return threshold;
}

// A threshold as a share of the capacity.
inline Threshold share(Signal signal, float fraction) {
  Threshold threshold;
  threshold.signal = signal;
  threshold.limit = Limit::share(fraction);
  return threshold;
}

// Some time after the world began.
inline MonotonicTime second(double count) {
  return from_ns(static_cast<std::int64_t>(count * 1e9));
}

inline FilesystemSample filesystem(Bytes capacity, Bytes available, std::int64_t inodes = 1000,
                                   std::int64_t inodes_free = 1000) {
  return {.available = available,
          .capacity = capacity,
          .inodes_free = inodes_free,
          .inodes = inodes,
          .at = {}};
}

inline TaskSample tasks(std::int64_t capacity, std::int64_t running) {
  return {.capacity = capacity, .running = running, .at = {}};
}

inline WorkloadSample as_pod(WorkloadSample sample) {
  sample.workload.kind = WorkloadKind::pod;
  return sample;
}

inline Config config(std::vector<Threshold> thresholds) {
  Config config;
  config.thresholds = std::move(thresholds);
  return config;
}

}  // namespace policy
}  // namespace forestall
