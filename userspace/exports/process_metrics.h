// SPDX-License-Identifier: Apache-2.0
// What every Prometheus client tells of its own process, under the names they all use.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace forestall::exports {

// Reads /proc/self each time it is asked; what cannot be read is left out. Any thread.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace forestall::exports
