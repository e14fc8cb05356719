// SPDX-License-Identifier: Apache-2.0
// Node-level reclaim: what comes before pods when a filesystem is short (kubelet.md §3 step 15 and
// §4; pkg/kubelet/eviction/helpers.go buildSignalToNodeReclaimFuncs, eviction_manager.go
// reclaimNodeLevelResources).
//
// Kubelet takes these steps inside its pass. They take long, so here the pass is left when they are
// asked for and taken up again when they are over; State::Reclaim holds its place.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

// The steps for a signal, in order; none for memory and process numbers, nor while the layout is
// not known.
[[nodiscard]] std::vector<ReclaimStep> reclaim_steps(Signal signal,
                                                     std::optional<FilesystemLayout> layout);

// What is left of State::reclaim in a step with this observation: done as soon as the agent says
// so; nothing where there is no runtime any more.
[[nodiscard]] std::optional<State::Reclaim> taken_up(const std::optional<State::Reclaim>& before,
                                                     ReclaimState now);

// Whether reclaim was enough: none of `evidence` would be met with its minimum reclaim enforced,
// soft ones included and grace periods aside. With Compat::reclaim_must_clear_all off only the
// threshold that asked, `asker`, counts.
[[nodiscard]] bool sufficed(const Config& config, const Evidence& asker,
                            std::span<const Evidence> evidence);

}  // namespace forestall::policy
