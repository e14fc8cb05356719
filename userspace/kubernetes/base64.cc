// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/base64.h"

#include <cstddef>
#include <cstdint>

namespace forestall::kubernetes {

std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos || padding > 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xff);
    }
  }
  // What is left is less than a byte, and padded to four characters.
  const bool whole =
      (count == 0 && padding == 0) || (count == 4 && padding == 2) || (count == 2 && padding == 1);
  return whole ? std::optional(out) : std::nullopt;
}

}  // namespace forestall::kubernetes
