// SPDX-License-Identifier: Apache-2.0
// What an agent and the kubelet of the same node both do, from the settings of both: which of the
// two acts first at each threshold, and which settings conflict. Pure: both settings are input.
//
// The kubelet reads the node every 10 s (pkg/kubelet/eviction/eviction_manager.go
// evictionMonitoringPeriod); with kernelMemcgNotification the kernel also wakes it, on cgroup v1
// only. The agent is woken within milliseconds of a crossing. So at the same threshold the agent
// acts first, and the kubelet usually finds the memory freed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "policy/plan.h"

namespace forestall::policy {

enum class ActsFirst : std::uint8_t {
  agent,
  kubelet,
  either,   // depends on how fast the amount falls
  unknown,  // the input does not decide it
};

[[nodiscard]] std::string_view to_string(ActsFirst first);

// One threshold of the kubelet with the agent's that is compared with it, or one that only one of
// the two has.
struct ComparedThreshold {
  Signal signal{};
  // "<500Mi", "<10% for 1m30s". Nullopt: it has none.
  std::optional<std::string> agent;
  std::optional<std::string> kubelet;
  ActsFirst first = ActsFirst::unknown;
  std::string reason;
};

struct OverlapInput {
  const Config& agent;
  const Config& kubelet;  // what its own file sets
  // Of the node, to compare amounts with percentages.
  NodeCapacity capacity;
  // Nullopt: unknown.
  std::optional<bool> cgroup_v2;
  // Whether the kubelet writes memory.high of containers (memory QoS, KEP-2570). Nullopt: unknown.
  std::optional<bool> kubelet_writes_memory_high;
  std::optional<double> throttling_factor;  // memoryThrottlingFactor. Nullopt: unknown, or none
};

struct OverlapReport {
  // In the kubelet's order, then those that only the agent has.
  std::vector<ComparedThreshold> thresholds;
  std::vector<Advice> advice;  // warnings, then notes
};

[[nodiscard]] OverlapReport kubelet_overlap(const OverlapInput& input);

}  // namespace forestall::policy
