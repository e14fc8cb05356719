// SPDX-License-Identifier: Apache-2.0
// The kills of a dry run that were counted and recorded, while they stand.
//
// A victim of a dry run lives on, and is selected again when the ladder forgets the kill
// (actuators/victim.h). The crossing is still the same one, so that is no further kill. A kill
// stands until its crossing is over or the victim has returned its memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/decision.h"
#include "model/ids.h"
#include "model/kill.h"
#include "model/observation.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class StandingDryRuns {
 public:
  // Far more than a node has victims. Beyond it the oldest is forgotten, and may count again.
  static constexpr std::size_t kMax = 1024;

  // False: the same kill stands already.
  [[nodiscard]] bool add(const Decision& decision, const Eviction& eviction);
  // Forgets those whose crossing is over, as an evaluation that read all of the node shows it.
  void evaluated(const Observation& observation, const Decision& decision);
  // Forgets those whose victim has returned its memory: a leak that follows is another one.
  void forget_ended(const std::vector<KillProgress>& kills);
  void clear() { all_.clear(); }

 private:
  struct CrossedThreshold {
    Threshold threshold;
    CgroupId subject;

    friend bool operator==(const CrossedThreshold&, const CrossedThreshold&) = default;
  };
  struct DryRun {
    CgroupId victim;
    std::optional<CrossedThreshold> crossing;  // nullopt: a limit on local storage, of this signal
    std::string metric_signal;
    bool by_ruleset = false;

    friend bool operator==(const DryRun&, const DryRun&) = default;
  };

  [[nodiscard]] static DryRun dry_run_of(const Decision& decision, const Eviction& eviction);
  [[nodiscard]] static bool is_over(const DryRun& dry_run, const Observation& observation,
                                    const Decision& decision);

  std::vector<DryRun> all_;  // oldest first
};

}  // namespace forestall::agent
