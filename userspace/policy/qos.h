// SPDX-License-Identifier: Apache-2.0
// The QoS class of a pod (kubelet.md §9; pkg/apis/core/v1/helper/qos/qos.go GetPodQOS,
// ComputePodQOS).
#pragma once

#include "model/pod.h"

namespace forestall::policy {

// What the pod's status says; else computed from cpu and memory of regular and init containers, or
// of the pod itself if it has resources of its own. Amounts of zero count as not declared.
// - BestEffort: no request and no limit.
// - Guaranteed: every container limits cpu and memory, and for both of them the requests add up to
//   what the limits add up to.
// - Burstable: any other.
[[nodiscard]] QosClass qos_class(const Pod& pod);

}  // namespace forestall::policy
