// SPDX-License-Identifier: Apache-2.0
// Which wake sources of the file tier this host allows, found out by trying each on something
// harmless: a threshold no usage reaches, a trigger closed at once, a file opened but not written.
// Leaves nothing behind and makes no cgroup.
#pragma once

#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/feature.h"

namespace forestall::kernel {

// One report each for usage_eventfd, memory_high, psi_trigger and poll, in this order; forced off
// ones are not tried. The evidence says what was done and what the kernel answered. Start only:
// the eventfd registration blocks for a grace period.
[[nodiscard]] std::vector<FeatureReport> probe_file_features(const CgroupTree& tree,
                                                             const FeatureSet& disabled,
                                                             const std::string& proc = "/proc");

}  // namespace forestall::kernel
