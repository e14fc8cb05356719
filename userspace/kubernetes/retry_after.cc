// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/retry_after.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/parse.h"

namespace forestall::kubernetes {
namespace {

// Seconds since the epoch of "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<std::int64_t> parse_http_date(std::string_view text) {
  const std::string date(trim(text));
  std::tm fields{};
  const char* rest = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &fields);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  return ::timegm(&fields);
}

}  // namespace

std::optional<Duration> parse_retry_after(std::string_view value, std::string_view server_date) {
  value = trim(value);
  const std::int64_t longest =
      std::chrono::duration_cast<std::chrono::seconds>(kRetryAfterMax).count();
  if (const auto seconds = parse_u64(value)) {
    const auto bounded = std::min(*seconds, static_cast<std::uint64_t>(longest));
    return std::max<Duration>(std::chrono::seconds(bounded), kRetryAfterMin);
  }
  const auto then = parse_http_date(value);
  const auto now = parse_http_date(server_date);
  if (!then || !now) return std::nullopt;
  const std::int64_t seconds = std::clamp<std::int64_t>(*then - *now, 0, longest);
  return std::max<Duration>(std::chrono::seconds(seconds), kRetryAfterMin);
}

}  // namespace forestall::kubernetes
