// SPDX-License-Identifier: Apache-2.0
// Parses JSON numbers into the exact type of a field.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace forestall::text {

enum class NumberFailure : std::uint8_t { not_a_number, not_whole, out_of_range };

// Whether `text` is a JSON number (RFC 8259 §6). JSON has no "+1", "01", ".5" or "NaN", and numbers
// have no blanks.
[[nodiscard]] inline bool is_json_number(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - begin;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const bool zero = i < text.size() && text[i] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

// Nothing: success, and `number` is set.
template <typename Integer>
[[nodiscard]] std::optional<NumberFailure> read_integer(std::string_view text, Integer& number) {
  // Doubles represent every whole number up to here.
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  if (!is_json_number(text)) return NumberFailure::not_a_number;
  const char* const end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, number); read.ptr == end) {
    return read.ec == std::errc() ? std::nullopt : std::optional(NumberFailure::out_of_range);
  }
  // 1e3, 2.0, and "-1" for unsigned types.
  double real = 0;
  if (std::from_chars(text.data(), end, real).ec != std::errc()) return NumberFailure::out_of_range;
  if (real != std::trunc(real)) return NumberFailure::not_whole;
  if (std::abs(real) > kExactMax ||
      real < static_cast<double>(std::numeric_limits<Integer>::min()) ||
      real > static_cast<double>(std::numeric_limits<Integer>::max())) {
    return NumberFailure::out_of_range;
  }
  number = static_cast<Integer>(real);
  return std::nullopt;
}

template <typename Real>
[[nodiscard]] std::optional<NumberFailure> read_real(std::string_view text, Real& number) {
  if (!is_json_number(text)) return NumberFailure::not_a_number;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return NumberFailure::out_of_range;
  return std::nullopt;
}

}  // namespace forestall::text
