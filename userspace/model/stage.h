// SPDX-License-Identifier: Apache-2.0
// The stages of an incident, from the crossing to the memory that is back, and how long each took.
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
  wake,     // the kernel saw the cause -> the loop ran
  observe,  // -> fresh values were read
  decide,   // -> the policy answered
  signal,   // -> the first SIGKILL was sent (a grace before it is part of this)
  exit,     // the first SIGKILL -> the last process was gone
  freed,    // the first SIGKILL -> the memory was back
};
inline constexpr std::size_t kStageCount = 6;

// Empty for what is no stage.
[[nodiscard]] std::string_view to_string(Stage stage);

// In the order of Stage; nothing for a stage that was not reached. Never negative: a clock that is
// read on two CPUs may be off by some nanoseconds.
using StageLengths = std::array<std::optional<Duration>, kStageCount>;
[[nodiscard]] StageLengths stage_lengths(const Record& record);

}  // namespace forestall
