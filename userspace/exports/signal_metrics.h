// SPDX-License-Identifier: Apache-2.0
// Gauges of each signal and subject as of one evaluation: available amount, capacity, thresholds,
// headroom, and the time to each threshold at the present growth.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exports/available_history.h"
#include "model/decision.h"

namespace forestall::exports {

class SignalMetrics final : public prometheus::Collectable {
 public:
  // The largest number of thresholds with amounts.
  explicit SignalMetrics(std::size_t reported_max);

  // Loop's thread. Keeps the old amounts while a reader holds the lock.
  void put(const std::vector<Evidence>& evidence);

  // Any other thread.
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct SubjectAmounts {
    Signal signal = Signal::memory_available;
    std::string subject;
    std::string_view kind;  // of the threshold
    std::int64_t available = 0;
    std::int64_t capacity = 0;
    std::int64_t threshold = 0;
    std::optional<double> seconds;  // nullopt: unknown, or the amount does not fall
  };
  struct Families;

  const std::size_t reported_max_;
  AvailableHistory history_;                    // the loop's, as the next line
  std::vector<std::optional<double>> seconds_;  // of the evidence at the same index
  mutable std::mutex reading_;                  // among readers; never locked by the loop
  mutable std::vector<SubjectAmounts> copied_;
  mutable std::mutex mutex_;  // between a reader and the loop, which only tries it
  std::vector<SubjectAmounts> shared_;
  std::size_t left_out_ = 0;
};

}  // namespace forestall::exports
