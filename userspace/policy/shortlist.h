// SPDX-License-Identifier: Apache-2.0
// Who is next: the head of the ranking, for whoever makes ready for a threshold before it is met.
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
  // For each of them: somebody who is not among them must have grown by so many bytes since, to be
  // evicted before it as it is. The largest number there is: nobody can. By kubelet's order: the
  // others may grow past their request as well as past its usage.
  std::vector<Bytes> leads;
};

// The first `count` candidates for `subject` when memory is short that may be killed. Whoever is
// excluded is left out: a step on these alone must not have to know for what reason, since it may
// lie in a workload that is not among them. REQUIRES: the workloads of `observation` were read.
[[nodiscard]] Shortlist shortlist(const Config& config, const Observation& observation,
                                  const Subject& subject, std::size_t count);

}  // namespace forestall::policy
