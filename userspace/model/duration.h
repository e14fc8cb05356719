// SPDX-License-Identifier: Apache-2.0
// Go durations ("300ms", "2h45m"), kubelet's format for every period.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace forestall {

// Units ns us µs ms s m h. A bare "0" is allowed, any other number needs a unit; a sign is allowed.
// Digits below a nanosecond are truncated. Error texts are those of Go's time.ParseDuration
// (src/time/format.go).
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);

// Go's Duration.String(): "1m30s", "1h0m0s", "1.5ms", "0s". Parses back to the same duration.
[[nodiscard]] std::string to_string(Duration duration);

// The same for people, rounded to three significant digits, but not to more than a second:
// "10.9s", "1m5.4s", "450us".
[[nodiscard]] std::string brief(Duration duration);
// A position on a timeline, with milliseconds, so that a column of them is aligned at the point:
// "+10.896s", "+1m5.400s".
[[nodiscard]] std::string offset(Duration duration);

}  // namespace forestall
