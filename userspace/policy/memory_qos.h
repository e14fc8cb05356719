// SPDX-License-Identifier: Apache-2.0
// Memory QoS (KEP-2570): the memory.min, memory.low and memory.high that kubelet writes for
// containers, pods and the cgroups of its QoS classes (pkg/kubelet/kuberuntime
// kuberuntime_container_linux.go generateLinuxContainerResources(), pkg/kubelet/cm
// helpers_linux.go ResourceConfigForPod(), qos_container_manager_linux.go setMemoryQoS()).
//
// - Until 1.35: memory.min is the request, of containers, pods and both levels. A request of 0
//   writes nothing.
// - From 1.36 with TieredReservation: Guaranteed pods have memory.min, Burstable pods memory.low;
//   the cgroup of all pods has a memory.min of both, because a parent must cover its children.
// - From 1.36 without it: 0 resets what an earlier policy wrote.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/memory_qos.h"
#include "model/pod.h"

namespace forestall::policy {

// A memory.high of "max".
inline constexpr std::int64_t kNoThrottling = std::numeric_limits<std::int64_t>::max();

// Bytes; nullopt: kubelet writes nothing.
struct MemoryProtection {
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> low;

  friend bool operator==(const MemoryProtection&, const MemoryProtection&) = default;
};

struct ContainerMemoryQos {
  std::string name;
  MemoryProtection protection;
  std::optional<std::int64_t> high;  // kNoThrottling where a limit is lifted

  friend bool operator==(const ContainerMemoryQos&, const ContainerMemoryQos&) = default;
};

struct PodMemoryQos {
  QosClass qos = QosClass::best_effort;
  bool active = true;  // kubelet keeps cgroups of active pods only
  MemoryProtection protection;
  std::vector<ContainerMemoryQos> containers;       // in the order of the pod
  std::vector<ContainerMemoryQos> init_containers;  // sidecars included
};

struct MemoryQosLevels {
  MemoryProtection burstable;
  std::optional<std::int64_t> kubepods_min;

  friend bool operator==(const MemoryQosLevels&, const MemoryQosLevels&) = default;
};

// The memory.high of a container with this request and limit (bytes, 0: none). Nullopt: kubelet
// writes none, because there is no factor, the allocatable memory is unknown, or the value would
// not be above the request. A container whose limit equals its request has none.
[[nodiscard]] std::optional<std::int64_t> memory_high(std::int64_t request, std::int64_t limit,
                                                      const MemoryQosSettings& settings);

[[nodiscard]] PodMemoryQos memory_qos(const Pod& pod, const MemoryQosSettings& settings);

// Of all active pods among `pods`.
[[nodiscard]] MemoryQosLevels memory_qos_levels(std::span<const Pod> pods,
                                                const MemoryQosSettings& settings);
[[nodiscard]] MemoryQosLevels memory_qos_levels(std::span<const std::shared_ptr<const Pod>> pods,
                                                const MemoryQosSettings& settings);

}  // namespace forestall::policy
