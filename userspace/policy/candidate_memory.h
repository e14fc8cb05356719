// SPDX-License-Identifier: Apache-2.0
// Sums over the working sets of candidates.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "model/decision.h"
#include "policy/saturating.h"

namespace forestall::policy {

// Of these candidates the ones that lie in no other of them, so that a sum counts each byte once.
// O(n log n).
[[nodiscard]] std::vector<const Candidate*> outermost(std::vector<const Candidate*> candidates);

// The candidates for which `counts` is true, by the rule of outermost().
template <typename Counts>
[[nodiscard]] std::vector<const Candidate*> outermost(const std::vector<Candidate>& candidates,
                                                      Counts counts) {
  std::vector<const Candidate*> counted;
  for (const Candidate& candidate : candidates) {
    if (counts(candidate)) counted.push_back(&candidate);
  }
  return outermost(std::move(counted));
}

// The working sets of the candidates for which `counts` is true, each byte once; nullopt: one of
// them is unknown.
template <typename Counts>
[[nodiscard]] std::optional<Bytes> held_by(const std::vector<Candidate>& candidates,
                                           Counts counts) {
  Bytes sum;
  for (const Candidate* each : outermost(candidates, counts)) {
    const auto held = each->sample.working_set();
    if (!held) return std::nullopt;
    sum = add(sum, *held);
  }
  return sum;
}

}  // namespace forestall::policy
