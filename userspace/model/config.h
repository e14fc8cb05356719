// SPDX-License-Identifier: Apache-2.0
// The configuration in force, already checked: what is watched, what may be killed, how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/feature.h"
#include "model/threshold.h"

namespace forestall {

// What is declared about the cgroups that match a glob; makes each of them a workload.
struct WorkloadRule {
  std::string cgroup;  // glob over paths of the memory hierarchy; `*` and `?` stop at '/'
  std::optional<std::string> name;
  std::optional<std::int32_t> priority;
  std::optional<Bytes> memory_request;
  bool is_protected = false;

  friend bool operator==(const WorkloadRule&, const WorkloadRule&) = default;
};

// What is declared about one pod, by its UID (from the manifest).
struct PodRule {
  std::string uid;
  std::optional<std::string> name;
  std::optional<std::int32_t> priority;
  std::optional<Bytes> memory_request;
  bool is_protected = false;

  friend bool operator==(const PodRule&, const PodRule&) = default;
};

struct Config {
  bool dry_run = false;  // decide and log, never signal
  std::vector<Threshold> thresholds;
  // Pods: every pod cgroup below <cgroup_root>/kubepods (or kubepods.slice) is a workload.
  bool pods = true;
  std::string cgroup_root = "/";
  std::vector<WorkloadRule> workloads;  // first match wins
  std::vector<PodRule> pod_rules;
  FeatureSet disabled;
  // How long a signalled victim may give no memory back before it counts as stuck and the next
  // candidate is tried.
  Duration release_timeout = std::chrono::milliseconds(500);
  // Longest time between two looks when nothing happens; lines are re-armed then.
  Duration recheck_interval = std::chrono::seconds(10);

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace forestall
