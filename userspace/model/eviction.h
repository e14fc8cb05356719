// SPDX-License-Identifier: Apache-2.0
// An eviction: one candidate to be evicted, with kubelet's texts about it
// (pkg/kubelet/eviction/helpers.go evictionMessage, eviction_manager.go).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace forestall {

// The cause of an eviction: a threshold, a limit on local storage, a ruleset, or memory pressure of
// one container.
enum class EvictionCause : std::uint8_t {
  threshold,
  empty_dir_limit,          // an emptyDir beyond its sizeLimit
  pod_storage_limit,        // the pod's ephemeral storage beyond the sum of its limits
  container_storage_limit,  // a container's ephemeral storage beyond its own limit
  ruleset,                  // an action of a ruleset
  high_pressure,            // a container at its memory.high, by "high" events
  max_pressure,             // a container at its memory.max, by "max" events
  psi_pressure,             // a container whose tasks wait for memory, by PSI
};

// "threshold", "emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit",
// "ruleset", "memory.high.pressure", "memory.max.pressure", "memory.psi.pressure".
[[nodiscard]] std::string_view to_string(EvictionCause cause);

struct Eviction {
  std::size_t candidate = 0;  // index into Decision::considered
  EvictionCause cause = EvictionCause::threshold;
  // Kubelet's time between SIGTERM and SIGKILL.
  Duration grace{0};
  // SIGKILL without that grace: with a hard memory threshold there is no time for it.
  bool at_once = false;
  std::string message;  // status.message and the event's text
  // Of the event, in kubelet's order: offending_containers, offending_containers_usage,
  // starved_resource, offending_pod, offending_pod_usage.
  std::vector<std::pair<std::string, std::string>> annotations;
  bool disruption_target = false;  // sets condition DisruptionTarget / TerminationByKubelet
  std::string metric_signal;       // label eviction_signal of kubelet_evictions

  friend bool operator==(const Eviction&, const Eviction&) = default;
};

// status.reason and the event's reason.
inline constexpr std::string_view kEvictedReason = "Evicted";

// Node-level reclaim before pods (pkg/kubelet/eviction reclaimNodeLevelResources).
enum class ReclaimStep : std::uint8_t { dead_containers, unused_images };
[[nodiscard]] std::string_view to_string(ReclaimStep step);

// The state of node-level reclaim.
enum class ReclaimState : std::uint8_t {
  unavailable,  // no container runtime: the step is skipped
  ready,        // it can be started
  running,      // it is running
  done,         // it has finished since the last step; filesystems were read afterwards
};
[[nodiscard]] std::string_view to_string(ReclaimState state);

}  // namespace forestall
