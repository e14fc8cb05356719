// SPDX-License-Identifier: Apache-2.0
// Samples of watched cgroups refer to thresholds by their index in the configuration that was in
// force. Another configuration has other indices.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/observation.h"

namespace forestall::replay {

// Replaces the samples by one for each threshold of `here` and each cgroup that it watches, as far
// as it was sampled under `recorded`: for a glob the cgroups that match it, for own limits those of
// the same class.
void assign_watched(const Config& recorded, const Config& here, std::vector<CgroupSample>& watched);

}  // namespace forestall::replay
