// SPDX-License-Identifier: Apache-2.0
// How two policies differ, for people and as messages.
#pragma once

#include <string>
#include <vector>

#include "cli/episodes.h"
#include "cli/recording_replay.h"
#include "forestall/v1/replay.pb.h"

namespace forestall::cli {

// How the accounts are spoken of: "recorded" and "now", or the names of two files.
struct Sides {
  std::string before = "recorded";
  std::string after = "here";
};

// One line for each crossing at which somebody went, or goes, or would have gone had it lasted, and
// how many of each kind. `first`: what times are told from.
[[nodiscard]] std::string episodes_text(const std::vector<EpisodeDifference>& differences,
                                        MonotonicTime first, const Sides& sides);

// Two decisions in full, and where they differ.
[[nodiscard]] std::string difference_text(const Decision& before, const Decision& after,
                                          const Sides& sides);

// The end of a replay of a recording: whether it came out as recorded, and if not, what is
// different.
[[nodiscard]] std::string comparison_text(const RecordingReplay& replay);

[[nodiscard]] v1::ReplayComparison comparison_of(const RecordingReplay& replay);
void add_episodes(const std::vector<EpisodeDifference>& differences, v1::ReplayComparison& out);

}  // namespace forestall::cli
