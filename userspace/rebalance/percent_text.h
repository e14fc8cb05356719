// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <string>

namespace forestall::rebalance {

// "42.5 %", with one digit after the point.
[[nodiscard]] inline std::string percent_text(double percent) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, percent, std::chars_format::fixed, 1);
  return std::string(text, end.ec == std::errc() ? end.ptr : text) + " %";
}

}  // namespace forestall::rebalance
