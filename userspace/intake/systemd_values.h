// SPDX-License-Identifier: Apache-2.0
// Values as systemd writes them in its configuration files (src/basic/percent-util.c, time-util.c).
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace forestall::intake {

// The time span "infinity".
inline constexpr std::chrono::microseconds kInfiniteSpan{std::numeric_limits<std::int64_t>::max()};

// "60%" with up to two decimals, "600‰" with one, "6000‱" with none; from 0 to 100 %, in
// hundredths of a percent. Nothing for any other text.
[[nodiscard]] std::optional<std::int64_t> parse_permyriad(std::string_view text);

// A sum of numbers with units, "1min 30s"; a number without unit is seconds. Nothing for any other
// text.
[[nodiscard]] std::optional<std::chrono::microseconds> parse_systemd_span(std::string_view text);

}  // namespace forestall::intake
