// SPDX-License-Identifier: Apache-2.0
// When the baseline of growth is sampled (policy/growth_baseline.h).
//
// It is sampled at the warning line. A spike may pass from there to the threshold before a sample
// is complete. So with `ranking: kubelet+growth` workloads are also sampled far from every line: on
// rechecks, and at a cost of at most a thousandth of one CPU, however many workloads there are.
// With any other ranking growth is only shown, and no sample is taken for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/config.h"
#include "model/observation.h"
#include "model/workload.h"
#include "policy/growth_baseline.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class GrowthWatch {
 public:
  // Both outlive the object.
  GrowthWatch(const Clock& clock, sources::Observer& observer)
      : clock_(clock), observer_(observer) {}

  // No threshold is met: begins to sample the workloads if the budget allows.
  void begin_sampling(const Config& config);
  // When work() is due; nothing while no sampling has begun.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const {
    return sampling_ ? std::optional(sampling_->began) : std::nullopt;
  }
  // Samples for a turn. REQUIRES: next_due().
  void work();
  // A threshold is met or near: the last baseline stays.
  void stop() { sampling_.reset(); }
  // A warning line is crossed, and no threshold is met: GrowthBaseline::take(). Repeated calls
  // while that lasts change nothing.
  void warned(const std::vector<WorkloadSample>& samples, MonotonicTime at,
              std::string_view scope) {
    baseline_.take(samples, at, scope);
  }
  // No warning line is crossed any more.
  void receded() { baseline_.forget(); }

  // There is a baseline.
  [[nodiscard]] bool known() const { return baseline_.taken_at().has_value(); }

  // Sets the growth of each sample.
  void apply(std::vector<WorkloadSample>& samples) const { baseline_.apply(samples); }

 private:
  struct Sampling {
    MonotonicTime began;
    std::uint64_t changes = 0;  // Observer::workload_changes()
    Observation read = {};
    std::size_t next = 0;
    Duration took{0};
  };

  const Clock& clock_;
  sources::Observer& observer_;
  std::optional<Sampling> sampling_;
  policy::GrowthBaseline baseline_;
  MonotonicTime sampling_due_;
};

}  // namespace forestall::agent
