// SPDX-License-Identifier: Apache-2.0
// Points in time on the command line and in output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace forestall::intake {

// CLOCK_REALTIME in nanoseconds of "2025-03-14T10:11:12.5Z" or "...+01:00" (RFC 3339), or without
// a zone, in UTC: "2025-03-14 10:11:12", "2025-03-14 10:11", "2025-03-14". Nothing: another form,
// or no such day or time. Clamped to what 64 bits hold: the years 1677 to 2262.
[[nodiscard]] std::optional<std::int64_t> parse_wall_time(std::string_view text);

// The same, or a Go duration before `now_ns`: "10m". Errors state the accepted forms.
[[nodiscard]] Result<std::int64_t> parse_time(std::string_view text, std::int64_t now_ns);

// "2025-03-14T10:11:12.500Z", as in the log.
[[nodiscard]] std::string wall_time_text(std::int64_t ns);

}  // namespace forestall::intake
