// SPDX-License-Identifier: Apache-2.0
// Whether cgroups that came after the last listing can change a kill for memory.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "model/config.h"
#include "model/decision.h"

namespace forestall::agent {

// What is known of the cgroups that came since the workloads were listed.
struct UnlistedCgroups {
  // Their paths; another one may be inside of each. Nullopt: a tenant made more than are counted.
  std::optional<std::span<const std::string>> paths;
  // Where pods come; empty: nowhere.
  std::string_view pods_path;
};

// Whether one of them may die with the victim although it is protected.
//
// Of those inside of a victim, it counts whether a rule that protects, or a pod, could be there.
// Where their paths are unknown, they may be anywhere inside of it. At or above a victim nothing
// can have come that a kill would reach: a victim is verified by its id, and a cgroup above it that
// is new has only got its path by a rename.
[[nodiscard]] bool may_be_reached(const Workload& victim, const UnlistedCgroups& unlisted,
                                  const Config& config);

// True: none of them may be reached by the kill of a victim, and less memory is outside of the
// considered workloads than the largest victim holds, so no unlisted workload is larger.
[[nodiscard]] bool unlisted_cannot_change(const Decision& decision, const UnlistedCgroups& unlisted,
                                          const Config& config);

}  // namespace forestall::agent
