// SPDX-License-Identifier: Apache-2.0
// When each threshold was crossed, as far as readings show it: between the last reading that
// did not reach it and the first that did. A threshold counts as met as the policy evaluates it,
// with the memory of victims that is pending release; so a further victim has a crossing of its
// own.
//
// A source may have read usage in between. The threshold's line in terms of usage moves with
// inactive_file, pending releases and limits, which a source does not read. So a reading counts as
// before the crossing only if it is below the line of the evaluation that found the threshold met,
// and as after it only if it is above. The line is taken to have moved one way between two
// evaluations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "model/crossing.h"
#include "model/decision.h"
#include "model/record.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class CrossingTracker {
 public:
  // What a source has reported since the last evaluation.
  void add(const SourceReadings& crossing) { seen_.push_back(crossing); }
  // An evaluation, in the order in which they were made. With Record::prepared, of a part of the
  // subjects.
  void evaluated(const Record& record);
  // The bounds for a threshold that is met. If no evaluation found it met, it was `seen_at`.
  [[nodiscard]] CrossingBounds bounds(const Evidence& evidence, MonotonicTime seen_at) const;
  // The configuration was replaced.
  void clear();

 private:
  using Key = std::tuple<Signal, CgroupId, std::int64_t, bool>;  // its limit; whether it is hard
  struct State {
    std::optional<CrossingBounds::Reading> above;
    std::optional<CrossingBounds::Reading> below;
    CrossingOrigin by = CrossingOrigin::reading;
    std::uint64_t round = 0;
  };

  [[nodiscard]] static Key key_of(const Evidence& evidence);
  void narrow(const Evidence& evidence, const Observation& observation, State& state) const;

  std::map<Key, State> thresholds_;
  std::vector<SourceReadings> seen_;
  std::uint64_t round_ = 0;
};

}  // namespace forestall::agent
