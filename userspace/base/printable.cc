// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <algorithm>

namespace forestall {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // 0: not well-formed UTF-8
};

// The first character. Overlong forms, surrogates and values above U+10FFFF are not well-formed.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  char32_t code = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return {};
    code = (code << 6) | (byte(i) & 0x3fU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
  return {code, length};
}

bool is_control(char32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::size_t printable_length(std::string_view text) {
  const Character first = first_of(text);
  return is_control(first.code) ? 0 : first.length;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character first = first_of(text);
    if (first.length == 0) {
      out += "\xef\xbf\xbd";
    } else if (is_control(first.code)) {
      out += '?';
    } else {
      out += text.substr(0, first.length);
    }
    text.remove_prefix(std::max<std::size_t>(first.length, 1));
  }
  return out;
}

std::string escaped(std::string_view text, std::string_view quoted) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  const auto add_byte = [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  };
  while (!text.empty()) {
    const std::size_t length = printable_length(text);
    const std::size_t taken = std::max<std::size_t>(first_of(text).length, 1);
    if (length > 0) {
      if (quoted.find(text.front()) != std::string_view::npos) out += '\\';
      out += text.substr(0, length);
    } else if (text.front() == '\n') {
      out += "\\n";
    } else {
      for (const char c : text.substr(0, taken)) add_byte(c);
    }
    text.remove_prefix(taken);
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const auto end = text.find('\n');
    out += printable(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace forestall
