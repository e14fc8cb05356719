// SPDX-License-Identifier: Apache-2.0
// The standard metrics of the process, with the names that all Prometheus clients use.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace forestall::exports {

// Reads /proc/self on each call; omits values that cannot be read. Any thread.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace forestall::exports
