// SPDX-License-Identifier: Apache-2.0
// The values of the agent's own memory QoS for the cgroups of a node: which cgroup gets which
// memory.min, memory.low and memory.high (policy/memory_qos.h has the formulas), and which of them
// the agent leaves alone.
//
// Values are whole pages, as the kernel stores them. A value of 0 protects nothing and is not
// planned. A memory.min or memory.low has an effect only as far as each parent has it too, so the
// plan includes the cgroups of the QoS classes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "model/allocatable.h"
#include "model/ids.h"
#include "model/memory_qos.h"
#include "model/pod.h"

namespace forestall::policy {

struct QosContainerCgroup {
  std::string path;
  CgroupId cgroup;
  std::string id;  // the runtime's
};

// A pod with its cgroups.
struct QosPodCgroup {
  std::string path;
  CgroupId cgroup;
  std::shared_ptr<const Pod> pod;
  std::vector<QosContainerCgroup> containers;
};

// A cgroup that exists.
struct QosOtherCgroup {
  std::string path;
  CgroupId cgroup;
};

struct MemoryQosPlanInput {
  const MemoryQosConfig& config;
  // Capacity without kubeReserved and systemReserved; bytes, 0: unknown.
  std::int64_t node_allocatable = 0;
  std::int64_t page_size = 4096;
  // All pods of the node that are known, also those without a cgroup: the levels cover them.
  std::span<const std::shared_ptr<const Pod>> pods;
  // Pods with cgroups but without facts: what the levels need is then unknown.
  std::uint64_t unknown_pods = 0;
  std::span<const QosPodCgroup> cgroups;
  std::span<const QosOtherCgroup> others;  // levels, and those of config.cgroups
};

struct PlannedMemoryQos {
  std::string subject;
  std::string path;
  CgroupId cgroup;
  MemoryQosFile file = MemoryQosFile::min;
  std::int64_t value = 0;  // above 0
  // Why the agent must not write it; empty: it may.
  std::string left = {};

  friend bool operator==(const PlannedMemoryQos&, const PlannedMemoryQos&) = default;
};

// The cgroups of the QoS classes; empty: no pod shows where it is, or two pods disagree.
struct QosLevelCgroups {
  std::string pods;
  std::string burstable;
};
[[nodiscard]] QosLevelCgroups qos_level_cgroups(std::span<const QosPodCgroup> cgroups);

// The levels first, then the pods in their order, then single cgroups.
[[nodiscard]] std::vector<PlannedMemoryQos> plan_memory_qos(const MemoryQosPlanInput& input);

// Capacity without kubeReserved and systemReserved.
[[nodiscard]] std::int64_t memory_qos_allocatable(Bytes capacity, const Reserved& kube,
                                                  const Reserved& system);

}  // namespace forestall::policy
