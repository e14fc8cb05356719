// SPDX-License-Identifier: Apache-2.0
// The paths of the cgroups that the events of one drain name.
//
// A lookup is a handful of system calls, done where the loop waits for them, and one OOM kill with
// memory.oom.group tells of hundreds of victims in two cgroups: so each cgroup is looked up once in
// a drain. Not longer: it can be renamed, or be gone and its id be another's.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/ids.h"

namespace forestall::sources {

class DrainPaths {
 public:
  // Tells the path of a cgroup; empty: nobody knows.
  using Lookup = std::function<std::string(CgroupId)>;
  explicit DrainPaths(Lookup lookup) : lookup_(std::move(lookup)) {}

  // Empty: not known, or no cgroup (inode 0), or one more than kLookupsMax of them.
  [[nodiscard]] std::string find(CgroupId id);

  // However many cgroups the kernel kills in at once, the loop goes on soon.
  static constexpr std::size_t kLookupsMax = 16;

 private:
  Lookup lookup_;
  std::vector<std::pair<CgroupId, std::string>> found_;  // what nobody knows, too
};

}  // namespace forestall::sources
