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

// Reads only what rulesets need, for an agent: cgroups that a ruleset names, and of these the files
// that decide something. What a tenant can do to the reader:
// - many cgroups: of a cgroup with more than kDescendantsMax descendants, each child is read by
//   itself. One with more children than that is a candidate as a whole, and so is one that does not
//   fit its share of RuleReader::kCgroupsMax: each cgroup whose descendants are candidates has an
//   equal one. Other cgroups beyond the limit are left out, and the observation is marked as
//   incomplete;
// - attributes: user.* counts only on a cgroup that root owns. The owner of a cgroup could
//   otherwise choose that others are killed first.
// Not for the loop's thread: memory.stat waits for a flush.
class RuleSampleReader {
 public:
  static constexpr std::size_t kDescendantsMax = 512;
  // Of one cgroup whose descendants are candidates: so many below it may have more than that.
  static constexpr std::size_t kLargeMax = 64;

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
