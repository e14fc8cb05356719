// SPDX-License-Identifier: Apache-2.0
// When the figures are taken that growth is told from (policy/growth_baseline.h).
//
// The warning line is the time for it. A spike may pass from there to the threshold before anything
// was read, so with `ranking: kubelet+growth` workloads are also read while all is calm: on the
// rechecks that are made anyway, and no oftener than costs a thousandth of one CPU, however many
// workloads there are. With any other ranking growth is only shown, and nothing is read for it.
#pragma once

#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/config.h"
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

  // Nothing is met, and a recheck is due: reads the workloads if they are worth it now.
  void look_calmly(const Config& config);
  // A warning line is crossed, and no threshold is met: GrowthBaseline::take(). May be told again
  // while it lasts; the first time counts.
  void warned(const std::vector<WorkloadSample>& samples, MonotonicTime at,
              std::string_view scope) {
    baseline_.take(samples, at, scope);
  }
  // No warning line is crossed any more.
  void receded() { baseline_.forget(); }

  // There is something to tell growth from.
  [[nodiscard]] bool known() const { return baseline_.taken_at().has_value(); }

  // Sets the growth of each sample.
  void apply(std::vector<WorkloadSample>& samples) const { baseline_.apply(samples); }

 private:
  const Clock& clock_;
  sources::Observer& observer_;
  policy::GrowthBaseline baseline_;
  MonotonicTime calm_due_;
};

}  // namespace forestall::agent
