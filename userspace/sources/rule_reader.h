// SPDX-License-Identifier: Apache-2.0
// Reads what rulesets decide on from this host: the cgroups with their files, and the node's
// memory. A file that this kernel or cgroup version does not have is unknown.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "model/rule_observation.h"
#include "rulesets/needs.h"
#include "sources/own_place.h"

namespace forestall::sources {

class RuleReader {
 public:
  // Cgroups beyond this number are not read, the deepest ones first.
  static constexpr std::size_t kCgroupsMax = 8192;

  // `tree` outlives the reader.
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
  // `tree` outlives the reader. `proc` is where procfs is.
  explicit RuleSampleReader(const kernel::CgroupTree& tree, std::string proc = "/proc");

  // A cgroup that is removed meanwhile is left out.
  [[nodiscard]] rulesets::RuleObservation read(MonotonicTime now,
                                               const std::vector<rulesets::RuleNeed>& needs);

 private:
  [[nodiscard]] std::vector<std::string> spared();

  const kernel::CgroupTree& tree_;
  const std::string proc_;
  OwnPlace agent_;
  OwnPlace init_;
};

}  // namespace forestall::sources
