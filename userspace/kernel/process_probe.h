// SPDX-License-Identifier: Apache-2.0
// Probes which ways of killing this host permits, by killing child processes of its own.
#pragma once

#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/feature.h"

namespace forestall::kernel {

// Reports on cgroup_kill, pidfd and process_mrelease, in Feature order. All are refused outside of
// the host's pid namespace. Features in `disabled` are not tried. May take tens of milliseconds:
// the kernel waits for an RCU grace period when a child moves into its cgroup. Call at start only,
// not from the loop.
[[nodiscard]] std::vector<FeatureReport> probe_processes(const CgroupTree& tree,
                                                         const FeatureSet& disabled);

}  // namespace forestall::kernel
