// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace forestall::text {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// The well-formed first bytes for each sequence length, with the range of the second byte (Unicode
// 15, table 3-7); all later bytes are in 80..BF.
struct Form {
  std::uint8_t first_min, first_max, second_min, second_max;
  std::size_t length;
};
constexpr Form kForms[] = {
    {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

// Length of the well-formed sequence at the start of `text`; 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  for (const Form& form : kForms) {
    if (first < form.first_min || first > form.first_max) continue;
    if (text.size() < form.length) return 0;
    for (std::size_t i = 1; i < form.length; ++i) {
      const std::uint8_t next = byte_at(text, i);
      const std::uint8_t low = i == 1 ? form.second_min : 0x80;
      const std::uint8_t high = i == 1 ? form.second_max : 0xbf;
      if (next < low || next > high) return 0;
    }
    return form.length;
  }
  return 0;
}

// Where the eight bytes at a time from `i` on that are all ASCII end.
std::size_t skip_ascii(std::string_view text, std::size_t i) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  for (; text.size() - i >= sizeof(std::uint64_t); i += sizeof(std::uint64_t)) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + i, sizeof bytes);
    if ((bytes & kHighBits) != 0) break;
  }
  return i;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t i = skip_ascii(text, 0); i < text.size(); i = skip_ascii(text, i)) {
    const std::size_t length = sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

std::string to_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (const auto bad = find_invalid_utf8(text)) {
    out.append(text.substr(0, *bad)).append("\xef\xbf\xbd");
    text.remove_prefix(*bad + 1);
  }
  return out.append(text);
}

}  // namespace forestall::text
