// SPDX-License-Identifier: Apache-2.0
// Ranks pods from files: their API objects and kubelet's statistics.
#pragma once

#include <optional>
#include <vector>

#include "cli/options.h"
#include "cli/pod_commands.h"
#include "intake/pod_list.h"
#include "intake/stats_summary.h"
#include "model/filesystem.h"
#include "model/signal.h"

namespace forestall::cli {

// Prints the output of `forestall rank --pods … --stats …`. Returns the exit code.
int rank_pods(const Options& options, const RankOptions& rank_options, Signal signal,
              std::optional<FilesystemLayout> layout);

struct RankPodsOptions {
  Signal signal = Signal::memory_available;
  std::optional<FilesystemLayout> layout;  // nothing: by the statistics
  OutputFormat output = OutputFormat::text;
};

// The same for pods and statistics that were read.
void rank_listed_pods(const Config& config, const RankPodsOptions& options,
                      std::vector<intake::ListedPod> pods, const intake::StatsSummary& summary);

}  // namespace forestall::cli
