// SPDX-License-Identifier: Apache-2.0
#include "base/quotes.h"

#include <cstddef>

namespace forestall {
namespace {

constexpr std::size_t kShown = 80;

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  if (text.size() <= kShown) return "'" + std::string(text) + "'";
  std::size_t end = kShown;
  while (end > 0 && is_continuation(text[end])) --end;
  return "'" + std::string(text.substr(0, end)) + "…'";
}

std::string in_double_quotes(std::string_view text) {
  return '"' + std::string(text) + '"';
}

}  // namespace forestall
