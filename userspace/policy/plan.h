// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a node's reservations: what is left for pods (kubelet.md §10,
// pkg/kubelet/cm/node_container_manager_linux.go), which settings an intent comes to, and what is
// known to go wrong with settings that are accepted. Pure: capacities are told, not looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/allocatable.h"
#include "model/quantity.h"
#include "model/threshold.h"

namespace forestall::policy {

// What the node has. Nothing: not known, or not asked about.
struct NodeCapacity {
  std::optional<Quantity> cpu;                // cores
  std::optional<Quantity> memory;             // bytes
  std::optional<Quantity> ephemeral_storage;  // bytes of the nodefs
  std::optional<Quantity> pids;
  std::optional<Quantity> pods;  // maxPods; nothing of it can be reserved
  Quantity huge_pages;           // bytes preallocated for huge pages, part of the memory
};

struct PlannedThreshold {
  Threshold threshold;
  bool from_hard = false;  // named in evictionHard, be it by default: only these are subtracted
};

struct PlanInput {
  NodeCapacity capacity;
  Reserved kube_reserved;
  Reserved system_reserved;
  bool pods_enforced = true;
  // Of kubelet's signals, without the copies for allocatableMemory.available.
  std::vector<PlannedThreshold> thresholds;
  bool hard_given = false;  // evictionHard was written, so that its defaults are gone
  std::int64_t max_pod_grace_seconds = 0;
};

// One resource of the node. All amounts in its unit: cores, bytes, process IDs.
struct ResourcePlan {
  std::string name;  // "cpu", "memory", "ephemeral-storage", "pid", "pods"
  Quantity capacity;
  Quantity kube_reserved;
  Quantity system_reserved;
  Quantity eviction;     // the hard threshold of memory.available or nodefs.available
  Quantity huge_pages;   // of memory
  Quantity allocatable;  // what the scheduler may give to pods; never negative
  // The limit of the pods cgroup; nothing: none is set.
  std::optional<Quantity> pods_limit;
};

enum class Severity : std::uint8_t {
  note,     // worth knowing
  warning,  // accepted, but hardly meant
  error,    // kubelet does not start
};

struct Advice {
  Severity severity = Severity::note;
  std::string topic;  // one word for programs: "soft-below-hard"
  std::string text;
};

struct Plan {
  std::vector<ResourcePlan> resources;  // those whose capacity is known
  // Working set of all pods together beyond which they are evicted (allocatableMemory.available).
  std::optional<Quantity> pods_evicted_above;
  // Working set of the whole node beyond which pods are evicted (memory.available).
  std::optional<Quantity> node_evicts_above;
  std::vector<Advice> advice;  // errors first, then warnings
};

[[nodiscard]] Plan plan(const PlanInput& input);

// A part of a capacity, as an amount or in hundredths of it; exactly one is set.
struct Portion {
  std::optional<Quantity> amount;
  std::optional<Quantity> percent;

  // Rounded down to nanos.
  [[nodiscard]] Quantity of(const Quantity& capacity) const;
};

struct MemorySettings {
  Quantity threshold;        // of memory.available
  Quantity system_reserved;  // of memory
};

// What to set so that `reserve` of the memory is the system's and eviction begins when `evict_at`
// of it is in use. As the official docs have it, the reservation includes what the eviction
// threshold keeps free, so that the system really has its part. The threshold is rounded down and
// the reservation up to amounts that people write. REQUIRES: evict_at is below the capacity.
[[nodiscard]] MemorySettings memory_settings(const Quantity& capacity, const Portion& reserve,
                                             const Portion& evict_at);

// The threshold part of it alone.
[[nodiscard]] Quantity memory_threshold(const Quantity& capacity, const Portion& evict_at);
// Of the reservation: `reserve` and `threshold`, rounded up.
[[nodiscard]] Quantity memory_reservation(const Quantity& capacity, const Portion& reserve,
                                          const Quantity& threshold);

// A quantity as people write it: "1.5Gi" for 1536Mi, else in canonical form.
[[nodiscard]] std::string written(const Quantity& quantity);
// The same to one decimal: "28.5Gi" for 29196Mi, "88Gi" for a few bytes less, "14.5" of CPUs.
[[nodiscard]] std::string rounded(const Quantity& quantity);

}  // namespace forestall::policy
