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
  // `globs`: paths at which a workload is protected with its descendants as soon as there is one.
  explicit ProtectedGroups(std::vector<ProtectedGroup> groups, std::vector<std::string> globs = {});

  [[nodiscard]] const std::vector<ProtectedGroup>& all() const { return groups_; }
  // Whether the cgroup at `path` is one of them, or below one that covers its descendants.
  [[nodiscard]] bool cover(std::string_view path) const;
  // The same of a path at which there was no cgroup when these were listed.
  [[nodiscard]] bool may_cover(std::string_view path) const;

 private:
  std::vector<ProtectedGroup> groups_;  // by path
  std::vector<std::string> globs_;
};

}  // namespace forestall::actuators
