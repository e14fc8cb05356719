// SPDX-License-Identifier: Apache-2.0
#include "agent/protected_workloads.h"

#include <utility>
#include <vector>

#include "policy/protection.h"

namespace forestall::agent {

std::shared_ptr<const actuators::ProtectedGroups> protected_groups(
    const sources::Observer& observer) {
  std::vector<actuators::ProtectedGroup> groups;
  for (const Workload* workload : observer.workloads()) {
    const Protection protection = policy::protection_of(*workload);
    if (protection == Protection::none) continue;
    // As in policy::ProtectedPaths: siblings in the agent's slice may be killed.
    const bool whole =
        protection != Protection::own_cgroup && protection != Protection::init_cgroup;
    groups.push_back({workload->cgroup, workload->path, whole});
  }
  return std::make_shared<const actuators::ProtectedGroups>(std::move(groups));
}

}  // namespace forestall::agent
