// SPDX-License-Identifier: Apache-2.0
// State that one policy step passes to the next: what kubelet's eviction manager remembers between
// passes (pkg/kubelet/eviction/eviction_manager.go managerImpl), per subject because Forestall
// watches cgroups and the node.
//
// Plain values, so that a replay of a recording can start in the middle with the recorded state.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/shared_value.h"
#include "model/condition.h"
#include "model/filesystem.h"
#include "model/ids.h"
#include "model/rule_state.h"
#include "model/threshold.h"

namespace forestall {

// A threshold in force, by its index, and the subject it applies to.
struct ThresholdId {
  std::size_t threshold = 0;
  CgroupId cgroup;  // inode 0: the node
  friend auto operator<=>(const ThresholdId&, const ThresholdId&) = default;
};

// A threshold derived from the configuration and the layout (policy/containerfs.h).
struct DerivedThreshold {
  // Its index: that of the configured threshold it replaces, otherwise after the configured ones.
  std::size_t index = 0;
  bool replaces = false;
  Threshold threshold;

  friend bool operator==(const DerivedThreshold&, const DerivedThreshold&) = default;
};

// When each signal of the last step was read. Of watched cgroups only those with a met threshold
// are kept: the same reading cannot become met later.
struct ReadingTimes {
  struct Watched {
    CgroupId cgroup;
    MonotonicTime at;
    friend bool operator==(const Watched&, const Watched&) = default;
  };
  std::array<std::optional<MonotonicTime>, kSignals.size()> node;  // by signal
  std::vector<Watched> watched;

  friend bool operator==(const ReadingTimes&, const ReadingTimes&) = default;
};

// Belongs to one Config: thresholds are identified by index. See policy::reconfigured(). Cheap to
// copy: while no threshold is met it owns no memory.
struct PolicyState {
  struct Met {
    ThresholdId id;
    MonotonicTime since;
    friend bool operator==(const Met&, const Met&) = default;
  };
  // State of one node condition.
  struct Reported {
    std::optional<MonotonicTime> last_met;
    bool status = false;
    friend bool operator==(const Reported&, const Reported&) = default;
  };
  // Node-level reclaim that was requested and whose pass has not ended.
  struct Reclaim {
    ThresholdId id;  // the threshold that requested it
    bool done = false;
    friend bool operator==(const Reclaim&, const Reclaim&) = default;
  };

  // What lay outside of all candidates when a kill for a threshold was decided that then began.
  struct Series {
    ThresholdId id;
    MonotonicTime began;
    Bytes outside;
    friend bool operator==(const Series&, const Series&) = default;
  };

  // Working sets at the last kill at a threshold's subject: when a kill for the threshold was
  // decided that then began, or first read after another kill.
  struct Holdings {
    struct Held {
      CgroupId cgroup;
      Bytes working_set;
      friend bool operator==(const Held&, const Held&) = default;
    };
    ThresholdId id;
    MonotonicTime at;  // kills that began until then are taken into account
    Bytes outside;     // used at the subject, and by no candidate of known usage
    // Of each candidate of known usage. By cgroup, ascending; never null.
    std::shared_ptr<const std::vector<Held>> held;

    // The working sets are compared by value.
    friend bool operator==(const Holdings& a, const Holdings& b);
  };

  // What the kill that the last step decided changes once it has begun. It may not begin: another
  // part of the agent may have acted first, or no process of the victim can be signalled.
  struct Decided {
    CgroupId victim;
    std::optional<Series> series;
    std::optional<Holdings> holdings;
    friend bool operator==(const Decided&, const Decided&) = default;
  };

  // The last kill of a ruleset, until it is seen to have begun. It may not begin.
  struct UnconfirmedRuleKill {
    CgroupId victim;
    std::uint64_t ruleset = 0;  // of RuleState::rulesets
    MonotonicTime at;           // of the step
    friend bool operator==(const UnconfirmedRuleKill&, const UnconfirmedRuleKill&) = default;
  };

  std::optional<MonotonicTime> at;         // of the last step; nullopt: there was none
  std::optional<FilesystemLayout> layout;  // as found first; does not change
  // Null until the layout is known.
  std::shared_ptr<const std::vector<DerivedThreshold>> derived;
  // Since when each threshold is met without interruption, whatever its grace period, ignoring
  // memory of kills in flight. Ascending, without duplicates.
  std::vector<Met> met;
  // Those of them whose grace period has passed; minimum reclaim applies only to these. Ascending,
  // without duplicates.
  std::vector<ThresholdId> driving;
  ReadingTimes read;
  std::array<Reported, kConditions.size()> conditions;  // in the order of kConditions
  std::optional<Reclaim> reclaim;
  // When a wait for a victim's cleanup ends, or when the end of its grace is too near to be brought
  // forward; the earlier of the two.
  std::optional<MonotonicTime> cleanup_until;
  // Younger than KillLimit::window; at most one for each threshold. Ascending.
  std::vector<Series> series;
  // Younger than KillLimit::window; at most one for each threshold. Ascending.
  std::vector<Holdings> holdings;
  std::optional<Decided> decided;
  // When time alone ends the reason for which a further kill is held back.
  std::optional<MonotonicTime> held_until;
  // Null: rulesets were not evaluated so far.
  SharedValue<rulesets::RuleState> rules;
  std::optional<UnconfirmedRuleKill> rule_kill;

  // Derived thresholds are compared by value.
  friend bool operator==(const PolicyState& a, const PolicyState& b);
};

}  // namespace forestall
