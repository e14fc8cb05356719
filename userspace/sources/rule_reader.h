// SPDX-License-Identifier: Apache-2.0
// Reads what rulesets decide on from this host: the cgroups with their files, and the node's
// memory. A file that this kernel or cgroup version does not have is unknown.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "rulesets/observation.h"

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

}  // namespace forestall::sources
