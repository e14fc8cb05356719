// SPDX-License-Identifier: Apache-2.0
// Differences between two policies, as text and as messages.
#pragma once

#include <string>
#include <vector>

#include "cli/episodes.h"
#include "cli/recording_replay.h"
#include "forestall/v1/replay.pb.h"

namespace forestall::cli {

// Names of the two sides: "recorded" and "here", or two file names.
struct Sides {
  std::string before = "recorded";
  std::string after = "here";
};

// One line for each crossing that differs, then the number of crossings of each kind. Times are
// relative to `first`.
[[nodiscard]] std::string episodes_text(const std::vector<EpisodeDifference>& differences,
                                        MonotonicTime first, const Sides& sides);

// Two decisions in full, and their differences.
[[nodiscard]] std::string difference_text(const Decision& before, const Decision& after,
                                          const Sides& sides);

// The summary of a replayed recording: whether all decisions are equal, and the differences.
[[nodiscard]] std::string comparison_text(const RecordingReplay& replay);

[[nodiscard]] v1::ReplayComparison comparison_of(const RecordingReplay& replay);
void add_episodes(const std::vector<EpisodeDifference>& differences, v1::ReplayComparison& out);

}  // namespace forestall::cli
