// SPDX-License-Identifier: Apache-2.0
// Kubelet's definitions of a critical and an active pod.
#pragma once

#include "model/pod.h"
#include "policy/protection.h"

namespace forestall::policy {

// Static pods, mirror pods and pods of a system priority (pkg/kubelet/types/pod_update.go
// IsCriticalPod). No priority is not critical.
[[nodiscard]] inline bool is_critical(const Pod& pod) {
  return pod.origin != PodOrigin::api || pod.priority.value_or(0) >= kCriticalPriority;
}

// Whether the pod can still use resources: a pod whose containers have all ended cannot, unless it
// is terminating (pkg/kubelet/kubelet_pods.go filterOutInactivePods).
[[nodiscard]] inline bool is_active(const Pod& pod) {
  const bool finished = pod.phase == PodPhase::succeeded || pod.phase == PodPhase::failed;
  return !finished || pod.terminating;
}

}  // namespace forestall::policy
