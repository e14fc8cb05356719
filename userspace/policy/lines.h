// SPDX-License-Identifier: Apache-2.0
// Usage lines: thresholds converted to values of a usage counter, by kubelet's formula
// (pkg/kubelet/eviction/memory_threshold_notifier.go UpdateThreshold).
#pragma once

#include <vector>

#include "model/config.h"
#include "model/line.h"
#include "model/observation.h"

namespace forestall::policy {

// The position of every threshold on memory for the wake sources, given the last observation.
// Subjects with an unknown signal have no line. A soft threshold has one until it is met: from then
// on only its grace period matters, and a crossed line would keep a polling source at its shortest
// interval. The same applies to a threshold that does not evict.
[[nodiscard]] std::vector<Line> lines(const Config& config, const Observation& observation);

}  // namespace forestall::policy
