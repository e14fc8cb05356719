// SPDX-License-Identifier: Apache-2.0
// Which rulesets need all their readings at a time, and which only those of a gate.
//
// A gate is a detector of a group whose readings are cheap: a pressure of cgroups that are named
// without wildcards, or the available memory of the node. While the gates of all groups are shut,
// no group can fire, and the ruleset is deferred: nothing else is read for it, and the engine
// begins its detectors anew. So a ruleset has gates only if nothing that is read later needs what
// was deferred. A gate has a lead: the time from its opening until its detector can fire at the
// earliest. The longest memory of the other detectors and of the actions fits into it.
//
// Opening: a pressure opens as late as its lead permits, above its threshold at the latest. The
// kernel updates averages every two seconds and adds 18 percent of what is missing at most
// (kernel/sched/psi.c). One update may come late and the next one on time. So an average that was 0
// exceeds a threshold of 60 percent six seconds after its first rise at the earliest, one of 90
// percent after 20. For the same reason a gate need not be read again at once.
//
// If only detectors have a longer memory, they are always read, and the candidates of kills are
// not while the gates are shut.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/rule_observation.h"
#include "model/ruleset.h"
#include "rulesets/needs.h"

namespace forestall::rulesets {

struct PressureGate {
  std::vector<std::string> cgroups;  // paths
  PressureResource resource = PressureResource::memory;
  bool some = false;  // otherwise full
  // The average that the detector compares.
  PressureOver::Average average = PressureOver::Average::avg10;
  double open_above = 0;  // percent

  friend bool operator==(const PressureGate&, const PressureGate&) = default;
};

struct AvailableGate {
  AvailableBelow available;
  // The group also requires that free swap is short: it cannot fire on a host without swap.
  bool needs_swap = false;

  friend bool operator==(const AvailableGate&, const AvailableGate&) = default;
};

using RuleGate = std::variant<PressureGate, AvailableGate>;

// The average that the gate compares; 0 if it is missing.
[[nodiscard]] double average_of(const PressureGate& gate, const PressureFile& file);
[[nodiscard]] inline bool is_open(const PressureGate& gate, double average) {
  return average > gate.open_above;
}
[[nodiscard]] bool is_open(const AvailableGate& gate, const Host& host);
// It waits for swap that the host does not have. Added swap has to be filled before it is short.
[[nodiscard]] inline bool lacks_swap(const AvailableGate& gate, const Host& host) {
  return gate.needs_swap && host.total_swap() == 0;
}
// How long it stays shut at least, if this is its average now: it need not be read meanwhile.
[[nodiscard]] std::chrono::seconds shut_for(const PressureGate& gate, double average);

struct RulesetReading {
  std::string ruleset;
  std::vector<RuleNeed> needs;
  // What `status` shows of a ruleset that is deferred: without candidates below the named cgroups.
  std::vector<RuleNeed> overview;
  std::vector<RuleGate> gates;  // of each group one; none: all of it is always read
  // What is always read, although the gates are shut; the ruleset is not deferred then.
  std::vector<RuleNeed> always;
  // So long after the last gate shut it is still read for, because a chain may wait for a hook.
  std::chrono::nanoseconds kept{0};

  friend bool operator==(const RulesetReading&, const RulesetReading&) = default;
};

using ReadingPlan = std::vector<RulesetReading>;

[[nodiscard]] ReadingPlan reading_plan(const std::vector<Ruleset>& rulesets);

// The path of a pattern without wildcards.
[[nodiscard]] std::optional<std::string> literal_path(const CgroupPattern& pattern);

}  // namespace forestall::rulesets
