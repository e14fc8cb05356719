// SPDX-License-Identifier: Apache-2.0
// Go durations ("300ms", "2h45m"), which is how kubelet writes every period.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace forestall {

// Units ns us µs ms s m h; a bare "0" is allowed, any other number needs a unit; may be negative.
// Errors are worded as Go's time.ParseDuration words them.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);

// Shortest exact Go form: "1m30s", "500ms", "0s".
[[nodiscard]] std::string to_string(Duration duration);

}  // namespace forestall
