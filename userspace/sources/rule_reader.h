// SPDX-License-Identifier: Apache-2.0
// Reads what rulesets decide on from this host: the cgroups with their files, and the node's
// memory. A file that this kernel or cgroup version does not have is unknown.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/shared_value.h"
#include "kernel/cgroup_tree.h"
#include "model/rule_observation.h"
#include "rulesets/needs.h"
#include "rulesets/reading_plan.h"
#include "sources/own_place.h"
#include "sources/rule_gate_reader.h"

namespace forestall::sources {

class RuleReader {
 public:
  // `tree` outlives the reader. Cgroups beyond RuleSelection::kCgroupsMax are not read, the deepest
  // ones first.
  explicit RuleReader(const kernel::CgroupTree& tree) : tree_(tree) {}

  // A cgroup that is removed meanwhile is left out.
  [[nodiscard]] rulesets::RuleObservation read(MonotonicTime now) const;

 private:
  [[nodiscard]] bool add(const std::string& path, rulesets::RuleObservation& observation,
                         std::vector<std::string>& next) const;

  const kernel::CgroupTree& tree_;
};

// Reads only what rulesets need, for an agent: cgroups that a ruleset names (RuleSelection), and of
// these the files that decide something. user.* attributes count only on a cgroup that root owns:
// the owner of a cgroup could otherwise choose that others are killed first.
// Not for the loop's thread: memory.stat waits for a flush.
class RuleSampleReader {
 public:
  static constexpr Duration kOverviewEvery = std::chrono::seconds(60);

  // `tree` outlives the reader. `proc` is where procfs is.
  explicit RuleSampleReader(const kernel::CgroupTree& tree, std::string proc = "/proc");

  // A cgroup that is removed meanwhile is left out.
  [[nodiscard]] rulesets::RuleObservation read(MonotonicTime now,
                                               const std::vector<rulesets::RuleNeed>& needs);
  // The same for the rulesets whose gates are open. The others are `deferred`: of them it reads the
  // overview, at first and every kOverviewEvery. If there is nothing to read, the observation has
  // no cgroup and no host.
  [[nodiscard]] rulesets::RuleObservation read_planned(
      MonotonicTime now, const SharedValue<rulesets::ReadingPlan>& plan);
  // Until then read_planned() with the same plan would defer all rulesets again and read nothing.
  // The last reading's time or earlier: not known.
  [[nodiscard]] MonotonicTime idle_until() const { return idle_until_; }

 private:
  struct RulesetTimes {
    MonotonicTime open_until;               // it is read for until then
    std::vector<MonotonicTime> shut_until;  // of each gate: it need not be read before
  };

  [[nodiscard]] std::vector<std::string> spared();
  void change_plan(const SharedValue<rulesets::ReadingPlan>& plan);
  // `host` is read for the first gate that needs it.
  [[nodiscard]] bool is_open(const rulesets::RulesetReading& reading,
                             std::optional<rulesets::Host>& host, MonotonicTime now);
  [[nodiscard]] bool is_open(const rulesets::PressureGate& gate, MonotonicTime now,
                             MonotonicTime& shut_until);
  [[nodiscard]] bool is_open(const rulesets::AvailableGate& gate,
                             std::optional<rulesets::Host>& host, MonotonicTime now,
                             MonotonicTime& shut_until) const;
  [[nodiscard]] MonotonicTime next_reading() const;

  const kernel::CgroupTree& tree_;
  const std::string proc_;
  OwnPlace agent_;
  OwnPlace init_;
  RuleGateReader gates_;
  SharedValue<rulesets::ReadingPlan> plan_;    // of the last reading
  std::map<std::string, RulesetTimes> times_;  // by ruleset
  MonotonicTime overview_due_;
  MonotonicTime idle_until_;
};

}  // namespace forestall::sources
