// SPDX-License-Identifier: Apache-2.0
// The header Retry-After of an HTTP answer (RFC 9110 §10.2.3).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace forestall::kubernetes {

// A server that requests more, or for nothing, does not decide how long its client is blind or how
// often it sends a request.
inline constexpr Duration kRetryAfterMin = std::chrono::seconds(1);
inline constexpr Duration kRetryAfterMax = std::chrono::seconds(60);

// How long to wait, between the limits above; nothing: `value` is empty or cannot be read. It is
// a number of seconds or a date. A date counts from `server_date`, the header Date of the same
// answer: the clocks of server and client may differ. Without that header a date is useless.
[[nodiscard]] std::optional<Duration> parse_retry_after(std::string_view value,
                                                        std::string_view server_date);

}  // namespace forestall::kubernetes
