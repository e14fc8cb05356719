// SPDX-License-Identifier: Apache-2.0
// Which ways of killing this host permits, found by killing children made for it.
#pragma once

#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/feature.h"

namespace forestall::kernel {

// Reports on cgroup_kill, pidfd and process_mrelease, in Feature order. Features in `disabled` are
// not tried. May take some tens of milliseconds: to put a child into a cgroup made for it, the
// kernel waits for an RCU grace period. Not for the loop; call it at the start.
[[nodiscard]] std::vector<FeatureReport> probe_processes(const CgroupTree& tree,
                                                         const FeatureSet& disabled);

}  // namespace forestall::kernel
