// SPDX-License-Identifier: Apache-2.0
// The containers of one pod in its cgroup, for the words about a victim: which of them used how
// much. Nothing is decided on this, so nothing is held open for it.
#pragma once

#include <string>
#include <string_view>

#include "kernel/cgroup_tree.h"
#include "model/pod.h"
#include "model/workload.h"

namespace forestall::sources {

// The container id in the name of a container's cgroup: "<id>", or with the systemd driver
// "cri-containerd-<id>.scope", "crio-<id>.scope", "docker-<id>.scope". The name itself if it is
// none of these.
[[nodiscard]] std::string_view container_id(std::string_view cgroup_name);

// Sets the working set of each container, in the statistics of `sample`, which are made if there
// are none. A container is named as `sample.workload.pod` has it, by its id; else by its cgroup.
// What cannot be read is left out.
void add_container_samples(const kernel::CgroupTree& tree, WorkloadSample& sample,
                           std::string& buffer);

}  // namespace forestall::sources
