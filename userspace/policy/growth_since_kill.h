// SPDX-License-Identifier: Apache-2.0
// What grew at a threshold's subject since the last kill there (model/policy_state.h, Holdings).
//
// The growth since the warning (policy/growth_baseline.h) is unknown for spikes and with
// `ranking: kernel`, and contains what earlier kills were for. This growth needs only the policy's
// own state, and shows which workload takes the memory now.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "model/decision.h"
#include "model/policy_state.h"

namespace forestall::policy {

// Candidates of unknown usage count as outside of all candidates.
[[nodiscard]] PolicyState::Holdings holdings_of(const ThresholdId& id, const Evidence& driving,
                                                MonotonicTime at,
                                                const std::vector<Candidate>& candidates);

class GrowthSinceKill {
 public:
  // `before` and `candidates` must outlive the object. O(n log n).
  GrowthSinceKill(const PolicyState::Holdings& before, const Evidence& driving,
                  const std::vector<Candidate>& candidates);

  // Whether `candidate` caused the present shortage. Candidates over their requests took at least
  // half of all memory that was taken since, and it is among those of them that took most. So it is
  // never a workload within its request, or one whose usage is unknown.
  [[nodiscard]] bool caused_by(const Candidate& candidate) const;

 private:
  [[nodiscard]] Bytes growth_of(const Candidate& candidate) const;

  const PolicyState::Holdings& before_;
  bool by_offenders_ = false;  // they took at least half
  Bytes enough_;               // growth from which a candidate is among those that took most
};

}  // namespace forestall::policy
