// SPDX-License-Identifier: Apache-2.0
// Memory of the containers of one pod, from their cgroups, for the message about a victim. No
// decision uses it, so no descriptor is held.
#pragma once

#include <string>
#include <string_view>

#include "kernel/cgroup_tree.h"
#include "model/pod.h"
#include "model/workload.h"

namespace forestall::sources {

// The container id in a container cgroup's name: "<id>", or with the systemd driver
// "cri-containerd-<id>.scope", "crio-<id>.scope", "docker-<id>.scope". Any other name is returned
// unchanged.
[[nodiscard]] std::string_view container_id(std::string_view cgroup_name);

// Sets the working set of each container in the statistics of `sample`, and creates the statistics
// if needed. A container takes its name from `sample.workload.pod` by its id, otherwise from its
// cgroup. Containers that cannot be read are left out.
void add_container_samples(const kernel::CgroupTree& tree, WorkloadSample& sample,
                           std::string& buffer);

}  // namespace forestall::sources
