// SPDX-License-Identifier: Apache-2.0
// Which cgroups are workloads, and what is declared about each. Workloads are pods found in the
// tree and cgroups that match a rule; those that must never be killed are marked. Reads
// directories, and the limit of a Guaranteed pod.
#pragma once

#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"
#include "model/workload.h"
#include "sources/pod_paths.h"

namespace forestall::sources {

// Cgroups that must not be killed whatever is declared, nor their ancestors.
struct ProtectedPlaces {
  std::vector<std::string> own;   // the agent's cgroups
  std::vector<std::string> init;  // the cgroups of pid 1
};

// Whether the rule protects each cgroup that it matches, by its mark or by its priority.
[[nodiscard]] bool protects(const WorkloadRule& rule);

// The pod's workload. Each field comes from a rule for its UID; if that leaves it open, from the
// first cgroup rule that matches the path. Protected if either rule protects it. The pod's
// Kubernetes facts are attached: they provide the name if no rule does, and protect a static or
// mirror pod. Its annotations count as far as Config::pod_annotations permits. A pod without them
// gets `inferred`, with the class of its group only. The policy handles all other facts.
[[nodiscard]] Workload pod_workload(const PodPath& pod, const Config& config,
                                    const ProtectedPlaces& places);
// The workload of a cgroup that matches `rule`.
[[nodiscard]] Workload cgroup_workload(const std::string& path, const WorkloadRule& rule,
                                       const ProtectedPlaces& places);
// A kill of a cgroup includes its descendants: a workload above a protected one becomes protected.
// REQUIRES: sorted by path.
void protect_ancestors(std::vector<Workload>& workloads);

// Sorted by path.
using KnownWorkloads = std::vector<const Workload*>;

// All workloads of the tree, sorted by path, without cgroup ids. The root is never one. Failed
// listings get a note in `notes`. Where a listing failed, those of the `known` workloads that still
// exist and that the configuration still covers are included.
//
// The request of a Guaranteed pod that Kubernetes has not reported is inferred from its own memory
// limit. With a request of 0 it would rank as exceeding its request. If the limit cannot be read,
// the request inferred before remains.
[[nodiscard]] std::vector<Workload> find_workloads(
    const kernel::CgroupTree& tree, const Config& config, const std::string& pods_cgroup,
    const ProtectedPlaces& places, const KnownWorkloads& known, std::vector<SourceNote>& notes);

}  // namespace forestall::sources
