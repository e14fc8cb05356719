// SPDX-License-Identifier: Apache-2.0
// The QoS class of a pod (pkg/apis/core/v1/helper/qos/qos.go GetPodQOS, ComputePodQOS).
#pragma once

#include "model/pod.h"

namespace forestall::policy {

// From the pod's status; otherwise computed from cpu and memory of regular and init containers, or
// from pod-level resources if there are any. Amounts of zero count as undeclared.
// - BestEffort: no request and no limit.
// - Guaranteed: every container limits cpu and memory, and for both the sum of requests equals the
//   sum of limits.
// - Burstable: any other.
[[nodiscard]] QosClass qos_class(const Pod& pod);

}  // namespace forestall::policy
