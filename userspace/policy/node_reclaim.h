// SPDX-License-Identifier: Apache-2.0
// Node-level reclaim: what precedes pod evictions if a filesystem is short
// (pkg/kubelet/eviction/helpers.go buildSignalToNodeReclaimFuncs, eviction_manager.go
// reclaimNodeLevelResources).
//
// Kubelet runs these steps inside its pass. They are slow, so here the pass ends when they are
// requested and resumes when they have finished; State::Reclaim keeps its state.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

// The steps for a signal, in order; none for memory and process IDs, or while the layout is
// unknown.
[[nodiscard]] std::vector<ReclaimStep> reclaim_steps(Signal signal,
                                                     std::optional<FilesystemLayout> layout);

// State::reclaim in a step with this observation: done once the agent reports it; nullopt if the
// runtime is no longer available.
[[nodiscard]] std::optional<State::Reclaim> taken_up(const std::optional<State::Reclaim>& before,
                                                     ReclaimState now);

// Whether reclaim sufficed: none of `evidence` would be met with its minimum reclaim enforced,
// including soft ones, ignoring grace periods. With Compat::reclaim_must_clear_all off only the
// threshold that requested it, `asker`, counts.
[[nodiscard]] bool sufficed(const Config& config, const Evidence& asker,
                            std::span<const Evidence> evidence);

}  // namespace forestall::policy
