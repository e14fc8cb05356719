// SPDX-License-Identifier: Apache-2.0
// The stages of an incident, from the crossing to the released memory, and their lengths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "model/record.h"

namespace forestall {

enum class Stage : std::uint8_t {
  // The last reading before the crossing -> the loop ran. For a grace period or a record without
  // readings: from the cause of the wake.
  wake,
  observe,  // -> fresh values were read
  decide,   // -> the policy decided
  signal,   // -> the first SIGKILL was sent (includes a grace)
  exit,     // the first SIGKILL -> the last process exited
  freed,    // the first SIGKILL -> the memory was back
  // All of it up to the signal: the crossing -> the first SIGKILL, at most. Not for a grace period.
  reaction,
};
inline constexpr std::size_t kStageCount = 7;

// Empty for an invalid stage.
[[nodiscard]] std::string_view to_string(Stage stage);

// In the order of Stage; nullopt for a stage that was not reached. Never negative: clocks read on
// two CPUs may differ by some nanoseconds.
using StageLengths = std::array<std::optional<Duration>, kStageCount>;
[[nodiscard]] StageLengths stage_lengths(const Record& record);

}  // namespace forestall
