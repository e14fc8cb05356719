// SPDX-License-Identifier: Apache-2.0
// The head of the ranking, prepared before a threshold is met.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/signals.h"

namespace forestall::policy {

struct Shortlist {
  std::vector<Candidate> first;  // in the order of eviction
  // For each of them: the growth of any other workload after which that one would be evicted first,
  // if this one stays unchanged. Maximum: no growth suffices. In kubelet's order others may grow
  // past their request as well as past this one's usage.
  std::vector<Bytes> leads;
};

// The first `count` killable candidates for `subject` when memory is short. Excluded ones are
// omitted: a step on these alone must not need the reason, which may be a workload that is not
// among them. REQUIRES: the workloads of `observation` were read.
[[nodiscard]] Shortlist shortlist(const Config& config, const Observation& observation,
                                  const Subject& subject, std::size_t count);

}  // namespace forestall::policy
