// SPDX-License-Identifier: Apache-2.0
// Computes a node's reservations: what is left for pods
// (pkg/kubelet/cm/node_container_manager_linux.go), which settings implement an intent, and known
// problems with accepted settings. Pure: capacities are input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/allocatable.h"
#include "model/quantity.h"
#include "model/threshold.h"

namespace forestall::policy {

// Capacity of the node. Nullopt: unknown, or not of interest.
struct NodeCapacity {
  std::optional<Quantity> cpu;                // cores
  std::optional<Quantity> memory;             // bytes
  std::optional<Quantity> ephemeral_storage;  // bytes of the nodefs
  std::optional<Quantity> pids;
  std::optional<Quantity> pods;  // maxPods; cannot be reserved
  Quantity huge_pages;           // bytes preallocated for huge pages, part of the memory
};

struct PlannedThreshold {
  Threshold threshold;
  bool from_hard = false;  // named in evictionHard, also by default: only these are subtracted
};

struct PlanInput {
  NodeCapacity capacity;
  Reserved kube_reserved;
  Reserved system_reserved;
  bool pods_enforced = true;
  // Of kubelet's signals, without the copies for allocatableMemory.available.
  std::vector<PlannedThreshold> thresholds;
  bool hard_given = false;  // evictionHard was set, which drops its defaults
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
  // The limit of the pods cgroup; nullopt: no limit is set.
  std::optional<Quantity> pods_limit;
};

enum class Severity : std::uint8_t {
  note,     // informational
  warning,  // accepted, but probably not intended
  error,    // kubelet does not start
};

[[nodiscard]] std::string_view severity_word(Severity severity);

struct Advice {
  Severity severity = Severity::note;
  std::string topic;  // identifier for programs: "soft-below-hard"
  std::string text;
};

struct Plan {
  std::vector<ResourcePlan> resources;  // those whose capacity is known
  // Working set of all pods together above which they are evicted (allocatableMemory.available).
  std::optional<Quantity> pods_evicted_above;
  // Working set of the whole node above which pods are evicted (memory.available).
  std::optional<Quantity> node_evicts_above;
  std::vector<Advice> advice;  // errors first, then warnings
};

[[nodiscard]] Plan plan(const PlanInput& input);

// A part of a capacity, as an amount or as a percentage; exactly one is set.
struct Portion {
  std::optional<Quantity> amount;
  std::optional<Quantity> percent;

  // Rounded down to nanos.
  [[nodiscard]] Quantity of(const Quantity& capacity) const;
};

// The threshold on memory.available with which eviction begins when `evict_at` of the memory is in
// use, rounded down to a usual amount. REQUIRES: evict_at is below the capacity.
[[nodiscard]] Quantity memory_threshold(const Quantity& capacity, const Portion& evict_at);
// The systemReserved memory with which `reserve` of the memory belongs to the system: `reserve`
// plus `kept`, rounded up to a usual amount. As in Kubernetes' documentation it includes what the
// eviction threshold keeps free, so that the system gets its part. `kept` is the exact threshold,
// so that nothing is rounded twice.
[[nodiscard]] Quantity memory_reservation(const Quantity& capacity, const Portion& reserve,
                                          const Quantity& kept);

// A quantity as usually written: "1.5Gi" for 1536Mi, otherwise in canonical form.
[[nodiscard]] std::string written(const Quantity& quantity);
// The same to one decimal: "28.5Gi" for 29196Mi, "88Gi" for a few bytes less, "14.5" of CPUs.
[[nodiscard]] std::string rounded(const Quantity& quantity);
// "10%", or an amount as written().
[[nodiscard]] std::string limit_text(const Limit& limit);

}  // namespace forestall::policy
