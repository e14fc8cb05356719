// SPDX-License-Identifier: Apache-2.0
// Probes which wake sources of the file tier this host permits, with harmless trials: a threshold
// that no usage reaches, a trigger that is closed at once, a file that is opened but not written.
// Leaves nothing behind and creates no cgroup.
#pragma once

#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/feature.h"

namespace forestall::kernel {

// One report each for usage_eventfd, memory_high, psi_trigger and poll, in this order; features
// that are forced off are not tried. The evidence is the trial and the kernel's result. Call at
// start only: the eventfd registration blocks for an RCU grace period.
[[nodiscard]] std::vector<FeatureReport> probe_file_features(const CgroupTree& tree,
                                                             const FeatureSet& disabled,
                                                             const std::string& proc = "/proc");

}  // namespace forestall::kernel
