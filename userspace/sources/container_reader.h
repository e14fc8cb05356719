// SPDX-License-Identifier: Apache-2.0
// The containers of one pod, from their cgroups, and their memory for the message about a victim.
// No decision uses the latter, so no descriptor is held.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/ids.h"
#include "model/pod.h"
#include "model/workload.h"

namespace forestall::sources {

// The container id in a container cgroup's name: "<id>", or with the systemd driver
// "cri-containerd-<id>.scope", "crio-<id>.scope", "docker-<id>.scope". Any other name is returned
// unchanged.
[[nodiscard]] std::string_view container_id(std::string_view cgroup_name);

// The name in the specification of the container with the id of this cgroup; the cgroup's name if
// the pod is unknown (null), or has none with this id.
[[nodiscard]] std::string container_name(const Pod* pod, const std::string& cgroup_name);

struct ContainerCgroup {
  std::string name;  // of the cgroup
  std::string path;
  CgroupId cgroup;
};

// The cgroups of the containers of the pod at `path`. ENODEV, ENOENT: the pod was removed. Any
// other error leaves open which ones there are.
[[nodiscard]] Result<std::vector<ContainerCgroup>> find_containers(const kernel::CgroupTree& tree,
                                                                   const std::string& path,
                                                                   CgroupId pod);

// Sets the working set of each container in the statistics of `sample`, and creates the statistics
// if needed. A container takes its name from `sample.workload.pod` by its id, otherwise from its
// cgroup. Containers that cannot be read are left out.
void add_container_samples(const kernel::CgroupTree& tree, WorkloadSample& sample,
                           std::string& buffer);

}  // namespace forestall::sources
