// SPDX-License-Identifier: Apache-2.0
// The oom_score_adj that kubelet gives to the processes of a container (pkg/kubelet/qos/policy.go
// GetContainerOOMScoreAdjust, helpers.go).
//
//   system-node-critical, Guaranteed   -997
//   BestEffort                         1000
//   Burstable                          1000 - 1000 * request / capacity, within 3 and 999
//
// A Burstable container therefore scores about 1000 in the kernel once its usage exceeds its
// request, and below 1000 otherwise.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "model/pod.h"

namespace forestall::policy {

inline constexpr std::int64_t kGuaranteedOomScoreAdj = -997;
inline constexpr std::int64_t kBestEffortOomScoreAdj = 1000;
inline constexpr std::int64_t kLowestBurstable = 1000 + kGuaranteedOomScoreAdj;

// `container` is one of the pod's, `capacity` the node's MemTotal. Division truncates. Details of
// the Burstable formula:
// - A memory request of the pod itself that its containers do not use up is divided evenly among
//   all of them, init containers included.
// - A sidecar gets no more than the regular container with the smallest request would.
// - An unknown capacity (not positive) counts as infinite: a request has no effect.
[[nodiscard]] std::int64_t oom_score_adj(const Pod& pod, const PodContainer& container,
                                         Bytes capacity);

}  // namespace forestall::policy
