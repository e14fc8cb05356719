// SPDX-License-Identifier: Apache-2.0
// The cgroups of protected workloads. Immutable: the loop replaces it, the watchdog's thread reads
// the one that was in force when its victim was pinned.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/ids.h"

namespace forestall::actuators {

struct ProtectedGroup {
  CgroupId cgroup;
  std::string path;
  bool with_descendants = true;

  friend bool operator==(const ProtectedGroup&, const ProtectedGroup&) = default;
};

class ProtectedGroups {
 public:
  explicit ProtectedGroups(std::vector<ProtectedGroup> groups);

  [[nodiscard]] const std::vector<ProtectedGroup>& all() const { return groups_; }
  // Whether the cgroup at `path` is one of them, or below one that covers its descendants.
  [[nodiscard]] bool cover(std::string_view path) const;

 private:
  std::vector<ProtectedGroup> groups_;  // by path
};

}  // namespace forestall::actuators
