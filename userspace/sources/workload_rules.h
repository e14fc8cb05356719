// SPDX-License-Identifier: Apache-2.0
// Which cgroups are workloads, and what is declared about each: pods found in the tree, cgroups
// that match a rule, and everything that must never be killed marked so. Reads directories, and
// the limit of a Guaranteed pod.
#pragma once

#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"
#include "model/workload.h"
#include "sources/pod_paths.h"

namespace forestall::sources {

// Cgroups that must not be killed whatever is declared, with everything above them.
struct ProtectedPlaces {
  std::vector<std::string> own;   // where the agent lives
  std::vector<std::string> init;  // where pid 1 lives
};

// The pod's workload. A rule for its UID counts first, field by field; what it leaves open is
// taken from the first cgroup rule that matches the path. Protected if either says so. What
// Kubernetes knows of it is attached, names it where no rule does, and protects a static or mirror
// pod; what follows from the rest is the policy's.
[[nodiscard]] Workload pod_workload(const PodPath& pod, const Config& config,
                                    const ProtectedPlaces& places);
// The workload of a cgroup that matches `rule`.
[[nodiscard]] Workload cgroup_workload(const std::string& path, const WorkloadRule& rule,
                                       const ProtectedPlaces& places);
// Killing a cgroup kills what is below it: a workload above a protected one gets its protection.
// REQUIRES: sorted by path.
void protect_ancestors(std::vector<Workload>& workloads);

// All workloads of the tree, sorted by path, cgroup ids not yet filled in. The root is never one.
// What could not be listed is told in `notes`. A Guaranteed pod without a declared memory_request
// has its own memory limit for one, unless Kubernetes has told what it requests, since with 0 it
// would rank as exceeding its request.
[[nodiscard]] std::vector<Workload> find_workloads(const kernel::CgroupTree& tree,
                                                   const Config& config,
                                                   const std::string& pods_cgroup,
                                                   const ProtectedPlaces& places,
                                                   std::vector<SourceNote>& notes);

}  // namespace forestall::sources
