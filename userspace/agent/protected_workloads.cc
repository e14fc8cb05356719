// SPDX-License-Identifier: Apache-2.0
#include "agent/protected_workloads.h"

#include <string>
#include <utility>
#include <vector>

#include "policy/protection.h"
#include "sources/workload_rules.h"

namespace forestall::agent {

std::shared_ptr<const actuators::ProtectedGroups> protected_groups(
    const sources::Observer& observer, const Config& config) {
  std::vector<actuators::ProtectedGroup> groups;
  for (const Workload* workload : observer.workloads()) {
    const Protection protection = policy::protection_of(*workload);
    if (protection == Protection::none) continue;
    // As in policy::ProtectedPaths: siblings in the agent's slice may be killed.
    const bool whole =
        protection != Protection::own_cgroup && protection != Protection::init_cgroup;
    groups.push_back({workload->cgroup, workload->path, whole});
  }
  std::vector<std::string> globs;
  for (const WorkloadRule& rule : config.workloads) {
    if (sources::protects(rule) && !rule.cgroup.empty()) globs.push_back(rule.cgroup);
  }
  return std::make_shared<const actuators::ProtectedGroups>(std::move(groups), std::move(globs));
}

}  // namespace forestall::agent
