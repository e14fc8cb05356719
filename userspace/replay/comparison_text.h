// SPDX-License-Identifier: Apache-2.0
// Differences between two policies, as text and as messages.
#pragma once

#include <string>
#include <vector>

#include "forestall/internal/replay.pb.h"
#include "replay/decision_difference.h"
#include "replay/episodes.h"
#include "replay/recording_replay.h"

namespace forestall::replay {

// One line for each crossing that differs, then the number of crossings of each kind. Times are
// relative to `first`.
[[nodiscard]] std::string episodes_text(const std::vector<EpisodeDifference>& differences,
                                        MonotonicTime first, const Sides& sides);

// The summary of a replayed recording: whether all decisions are equal, and the differences.
[[nodiscard]] std::string comparison_text(const RecordingReplay& replay);

[[nodiscard]] internal::ReplayComparison comparison_of(const RecordingReplay& replay);
void add_episodes(const std::vector<EpisodeDifference>& differences,
                  internal::ReplayComparison& out);

}  // namespace forestall::replay
