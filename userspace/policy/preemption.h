// SPDX-License-Identifier: Apache-2.0
// Preempts pods for a critical pod for which the node's requests leave no room
// (pkg/kubelet/preemption/preemption.go getPodsToPreempt). Separate from eviction: it is about what
// pods request, not about what they use.
//
// A critical pod may preempt every pod that is not critical, and any pod may preempt one of a lower
// priority if both have a priority. Selected are
// - the Guaranteed pods that are needed even if all others are removed,
// - then the Burstable pods needed even if all BestEffort ones are removed,
// - then the BestEffort pods still needed.
// Within a class, while something is lacking, the pod with the smallest distance is selected: the
// sum over the lacking resources of (what the pod leaves unmet / what is lacking)². Ties go to the
// smaller memory request, then cpu, then namespace, name and UID, so that the selection does not
// depend on the order of the input (kubelet's does).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/pod.h"

namespace forestall::policy {

// status.reason and status.message of a preempted pod; it keeps its own grace period.
inline constexpr std::string_view kPreemptedReason = "Preempting";
inline constexpr std::string_view kPreemptedMessage = "Preempted in order to admit critical pod";

// What the node offers to pods. An undeclared resource is unlimited.
struct Allocatable {
  ResourceList resources;
  std::optional<std::int64_t> pods;  // maximum number of pods
};

struct Preemption {
  std::vector<std::size_t> victims;  // indices into the active pods; BestEffort ones first
  // Label preemption_signal of kubelet_preemptions: the first lacking resource of pods, cpu,
  // memory, ephemeral-storage. Empty if none is lacking: the pod fits.
  std::string metric_signal;

  friend bool operator==(const Preemption&, const Preemption&) = default;
};

// The pods to preempt so that `incoming` fits with the rest of `active`, which does not contain it.
// No victims if it fits already. Nullopt if it is not critical, or if preempting all permitted pods
// would not suffice. O(victims * pods).
[[nodiscard]] std::optional<Preemption> preempt(const Pod& incoming,
                                                std::span<const std::shared_ptr<const Pod>> active,
                                                const Allocatable& allocatable);

// Whether `preemptor` may replace `other` (pkg/kubelet/types/pod_update.go Preemptable).
[[nodiscard]] bool may_preempt(const Pod& preemptor, const Pod& other);

}  // namespace forestall::policy
