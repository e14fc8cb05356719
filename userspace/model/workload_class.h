// SPDX-License-Identifier: Apache-2.0
// The class of a workload, as its cgroup's path shows it.
#pragma once

#include <string_view>

#include "model/threshold.h"

namespace forestall {

// The class of the workload at this path of the memory hierarchy (policy/pod_cgroup.h).
[[nodiscard]] WorkloadClass workload_class_at(std::string_view path);

}  // namespace forestall
