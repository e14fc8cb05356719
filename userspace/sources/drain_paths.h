// SPDX-License-Identifier: Apache-2.0
// The paths of the cgroups named by the events of one drain.
//
// A lookup is a few system calls on the loop's thread. One OOM kill with memory.oom.group can
// report hundreds of victims in two cgroups, so each cgroup is looked up once per drain. The
// result is not kept longer: a cgroup can be renamed, or removed and its id reused.
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
  // Returns the path of a cgroup; empty if unknown.
  using Lookup = std::function<std::string(CgroupId)>;
  explicit DrainPaths(Lookup lookup) : lookup_(std::move(lookup)) {}

  // Empty: unknown, not a cgroup (inode 0), or beyond the first kLookupsMax cgroups.
  [[nodiscard]] std::string find(CgroupId id);

  // Bounds the time in the loop, however many cgroups the kernel kills in.
  static constexpr std::size_t kLookupsMax = 16;

 private:
  Lookup lookup_;
  std::vector<std::pair<CgroupId, std::string>> found_;  // failed lookups included
};

}  // namespace forestall::sources
