// SPDX-License-Identifier: Apache-2.0
// Ranks pods from files: their API objects and kubelet's statistics.
#pragma once

#include "cli/options.h"
#include "cli/pod_commands.h"
#include "model/filesystem.h"
#include "model/signal.h"

namespace forestall::cli {

// Prints the output of `forestall rank --pods … --stats …`. Returns the exit code.
int rank_pods(const Options& options, const RankOptions& rank_options, Signal signal,
              std::optional<FilesystemLayout> layout);

}  // namespace forestall::cli
