// SPDX-License-Identifier: Apache-2.0
// Files that both an agent and the kubelet of its node write: memory.high of cgroups, and the
// oom_score_adj of processes.
#pragma once

#include <vector>

#include "policy/kubelet_overlap.h"

namespace forestall::policy {

[[nodiscard]] std::vector<Advice> conflicting_writes(const OverlapInput& input);

}  // namespace forestall::policy
