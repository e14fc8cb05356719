// SPDX-License-Identifier: Apache-2.0
// Whom the kernel would choose: mm/oom_kill.c out_of_memory(), select_bad_process() and
// oom_kill_process() as a pure function of what they look at.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/oom.h"

namespace forestall::policy {

// Highest points win. Of equal ones the last in the kernel's walk does (oom_evaluate_task passes
// over `points < chosen_points` only): the walk goes by fork order for the node, and for a memcg
// through the tree in pre-order, then through each cgroup's own list.
[[nodiscard]] OomPrediction predict(const OomScene& scene);

// The processes of the scene that may be chosen, with their points, the kernel's first choice
// first: what the prediction was made from.
[[nodiscard]] std::vector<OomChoice> oom_order(const OomScene& scene);

// Indices of those that tie for the highest points within one cgroup (for the node: at all): whose
// order in the kernel's walk has to be known. Empty: no tie.
[[nodiscard]] std::vector<std::size_t> tied_for_first(const OomScene& scene);

}  // namespace forestall::policy
