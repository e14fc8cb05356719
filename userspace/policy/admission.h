// SPDX-License-Identifier: Apache-2.0
// Whether kubelet would admit a pod while the node is under pressure
// (pkg/kubelet/eviction/eviction_manager.go Admit). Preemption for critical pods is separate
// (policy/preemption.h).
#pragma once

#include <span>
#include <string>

#include "model/condition.h"
#include "model/pod.h"

namespace forestall::policy {

struct AdmissionVerdict {
  bool admitted = true;
  std::string reason;   // "Evicted" when rejected
  std::string message;  // "The node had condition: [MemoryPressure]. " when rejected

  friend bool operator==(const AdmissionVerdict&, const AdmissionVerdict&) = default;
};

// `reported`: the conditions in force, without duplicates, in the order of the message.
// - None, or a critical pod: admitted.
// - MemoryPressure only: admitted, except BestEffort pods that do not tolerate its taint
//   (node.kubernetes.io/memory-pressure, effect NoSchedule).
// - Any other: rejected.
[[nodiscard]] AdmissionVerdict admit(const Pod& pod, std::span<const Condition> reported);

}  // namespace forestall::policy
