// SPDX-License-Identifier: Apache-2.0
// Go durations ("300ms", "2h45m"), which is how kubelet writes every period.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace forestall {

// Units ns us µs ms s m h; a bare "0" is allowed, any other number needs a unit; a sign is
// allowed. Digits beyond the nanosecond are cut off. Errors are worded as Go's time.ParseDuration
// words them (src/time/format.go).
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);

// Go's Duration.String(): "1m30s", "1h0m0s", "1.5ms", "0s". Reads back as the same duration.
[[nodiscard]] std::string to_string(Duration duration);

}  // namespace forestall
