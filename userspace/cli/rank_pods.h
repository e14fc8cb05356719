// SPDX-License-Identifier: Apache-2.0
// Ranking of pods that somebody else observed: their API objects and kubelet's statistics.
#pragma once

#include "cli/options.h"
#include "cli/pod_commands.h"
#include "model/filesystem.h"
#include "model/signal.h"

namespace forestall::cli {

// `forestall rank --pods … --stats …`, printed. Returns the exit code.
int rank_pods(const Options& options, const RankOptions& rank_options, Signal signal,
              std::optional<FilesystemLayout> layout);

}  // namespace forestall::cli
