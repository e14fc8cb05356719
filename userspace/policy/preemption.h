// SPDX-License-Identifier: Apache-2.0
// Making room for a critical pod that the node's requests leave no room for (kubelet.md §7, second
// half; pkg/kubelet/preemption/preemption.go getPodsToPreempt). Separate from eviction: it is about
// what pods request, not about what they use.
//
// May be preempted: by a critical pod, every pod that is not; and any pod of a lower priority where
// both have one. To be chosen are
// - the Guaranteed pods that are needed even if all others went,
// - then the Burstable pods needed even if all BestEffort ones went,
// - then the BestEffort pods needed still.
// Within a class, as long as something is lacking, the pod that leaves the least of it: the
// smallest sum over the lacking resources of (what the pod leaves unmet / what is lacking)², ties
// to the smaller memory request, then cpu, then by namespace, name and UID, so that the choice does
// not depend on the order of the input (kubelet's own does).
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

// What the node gives to pods. A resource that is not declared is without bound here.
struct Allocatable {
  ResourceList resources;
  std::optional<std::int64_t> pods;  // how many may run
};

struct Preemption {
  std::vector<std::size_t> victims;  // indices into the active pods; BestEffort ones first
  // Label preemption_signal of kubelet_preemptions: the first resource that is lacking, of pods,
  // cpu, memory, ephemeral-storage. Empty when nothing is: the pod fits.
  std::string metric_signal;

  friend bool operator==(const Preemption&, const Preemption&) = default;
};

// Whom to preempt so that `incoming` fits beside the rest of `active`, which does not contain it.
// No victims when it fits as it is. Nothing when it is not critical, or when not even preempting
// everybody that it may would do. O(victims * pods).
[[nodiscard]] std::optional<Preemption> preempt(const Pod& incoming,
                                                std::span<const std::shared_ptr<const Pod>> active,
                                                const Allocatable& allocatable);

// Whether `preemptor` may take the place of `other` (pkg/kubelet/types/pod_update.go Preemptable).
[[nodiscard]] bool may_preempt(const Pod& preemptor, const Pod& other);

}  // namespace forestall::policy
