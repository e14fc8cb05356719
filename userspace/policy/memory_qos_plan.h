// SPDX-License-Identifier: Apache-2.0
// The values of the agent's own memory QoS for the cgroups of a node: which cgroup gets which
// memory.min, memory.low and memory.high (policy/memory_qos.h has the formulas), and which of them
// the agent leaves alone.
//
// Values are whole pages, as the kernel stores them. A value of 0 protects nothing and is not
// planned. A memory.min or memory.low has an effect only as far as each parent has it too, so the
// plan includes the cgroups of the QoS classes. They cover the pods that are known: the others have
// no values.
//
// If memory.min is more than the node can do without, the kernel kills other processes. So the
// memory.min of all pods together is at most what MemoryQosPlanInput::min_limit leaves to it, which
// limits every pod below too. A value that stays as it is counts as what is present, if that is
// more than planned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// memory.min of a cgroup directly below the root for which there may be a planned one.
struct MemoryQosPresentMin {
  std::string path;
  std::int64_t amount = 0;  // bytes
  // The agent does not write it at present: another process has a value there, or a write failed.
  bool stays = false;
};

struct MemoryQosPlanInput {
  const MemoryQosConfig& config;
  // Capacity without kubeReserved and systemReserved; bytes, 0: unknown.
  std::int64_t node_allocatable = 0;
  // The most that memory.min of all cgroups may be together; bytes, 0: unknown, and none is
  // written.
  std::int64_t min_limit = 0;
  // Of it, what other cgroups have by other processes. Nothing: it cannot be read, and none is
  // written.
  std::optional<std::int64_t> min_of_others = 0;
  std::span<const MemoryQosPresentMin> present_min;
  std::int64_t page_size = 4096;
  // All pods of the node that are known, also those without a cgroup: the levels cover them.
  std::span<const std::shared_ptr<const Pod>> pods;
  std::span<const QosPodCgroup> cgroups;
  std::span<const QosOtherCgroup> others;  // levels, and those of config.cgroups
};

struct PlannedMemoryQos {
  std::string subject;
  std::string path;
  CgroupId cgroup;
  MemoryQosFile file = MemoryQosFile::min;
  std::int64_t value = 0;  // above 0 unless it is left
  // Why the agent must not write it; empty: it may.
  std::string left = {};
  std::string note = {};  // what is less than the formula gives, and why

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

// The most memory.min of a node: what is allocatable, and never the last 5 % of its capacity.
[[nodiscard]] std::int64_t memory_min_limit(Bytes capacity, const Reserved& kube,
                                            const Reserved& system);

// Capacity without kubeReserved and systemReserved.
[[nodiscard]] std::int64_t memory_qos_allocatable(Bytes capacity, const Reserved& kube,
                                                  const Reserved& system);

}  // namespace forestall::policy
