// SPDX-License-Identifier: Apache-2.0
#include "intake/systemd_values.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/parse.h"

namespace forestall::intake {
namespace {

constexpr std::int64_t kPermyriadMax = 10000;

// safe_atoi(): blanks before, a sign, and the prefixes 0x, 0o, 0b and 0 (octal). 0 or more.
std::optional<std::int64_t> parse_whole(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || (text.front() >= '\t' && text.front() <= '\r'))) {
    text.remove_prefix(1);
  }
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text.front() == '0') {
    const char prefix = text[1];
    base = prefix == 'x' ? 16 : prefix == 'b' ? 2 : 8;
    text.remove_prefix(prefix == 'x' || prefix == 'b' || prefix == 'o' ? 2 : 1);
  }
  std::int32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, base);
  if (text.empty() || text.front() == '-') return std::nullopt;
  if (read.ec != std::errc() || read.ptr != end || (negative && value != 0)) return std::nullopt;
  return value;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// `text` without its unit, times 10^`decimals`; at most so many digits after the point, at least
// one.
std::optional<std::int64_t> parse_decimal(std::string_view text, std::size_t decimals) {
  const std::size_t dot = text.find('.');
  std::int64_t scaled = 0;
  const auto whole = parse_whole(text.substr(0, dot));
  if (!whole || *whole > kPermyriadMax) return std::nullopt;
  std::string_view digits;
  if (dot != std::string_view::npos) {
    digits = text.substr(dot + 1);
    if (digits.empty() || digits.size() > decimals) return std::nullopt;
  }
  scaled = *whole;
  for (std::size_t i = 0; i < decimals; ++i) {
    if (i < digits.size() && !is_digit(digits[i])) return std::nullopt;
    scaled = scaled * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  }
  return scaled;
}

struct SpanUnit {
  std::string_view name;
  std::int64_t us;
};

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kDay = 86400 * kSecond;
constexpr std::int64_t kYear = 31'557'600 * kSecond;  // 365.25 days

// A longer name before its prefix.
constexpr std::array<SpanUnit, 30> kSpanUnits{{{"seconds", kSecond},
                                               {"second", kSecond},
                                               {"sec", kSecond},
                                               {"s", kSecond},
                                               {"minutes", 60 * kSecond},
                                               {"minute", 60 * kSecond},
                                               {"min", 60 * kSecond},
                                               {"months", kYear / 12},
                                               {"month", kYear / 12},
                                               {"M", kYear / 12},
                                               {"msec", 1000},
                                               {"ms", 1000},
                                               {"m", 60 * kSecond},
                                               {"hours", 3600 * kSecond},
                                               {"hour", 3600 * kSecond},
                                               {"hr", 3600 * kSecond},
                                               {"h", 3600 * kSecond},
                                               {"days", kDay},
                                               {"day", kDay},
                                               {"d", kDay},
                                               {"weeks", 7 * kDay},
                                               {"week", 7 * kDay},
                                               {"w", 7 * kDay},
                                               {"years", kYear},
                                               {"year", kYear},
                                               {"y", kYear},
                                               {"usec", 1},
                                               {"us", 1},
                                               {"\u03bcs", 1},
                                               {"\u00b5s", 1}}};

void skip_blanks(std::string_view& text) {
  const std::size_t begin = text.find_first_not_of(" \t\n\r");
  text.remove_prefix(begin == std::string_view::npos ? text.size() : begin);
}

std::int64_t take_unit(std::string_view& text) {
  for (const SpanUnit& unit : kSpanUnits) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    return unit.us;
  }
  return kSecond;
}

// Digits, as many as there are; nothing if there are none or too many.
std::optional<std::int64_t> take_digits(std::string_view& text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || !is_digit(text.front()) || read.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return value;
}

// One number with its unit, in microseconds.
std::optional<std::int64_t> take_part(std::string_view& text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t whole = 0;
  const bool begins_with_point = text.starts_with('.');
  if (!begins_with_point) {
    const auto digits = take_digits(text);
    if (!digits) return std::nullopt;
    whole = *digits;
  }
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    std::size_t end = 0;
    while (end < text.size() && is_digit(text[end])) ++end;
    fraction = text.substr(0, end);
    if (fraction.empty()) return std::nullopt;
    text.remove_prefix(end);
  }
  const std::string_view number_end = text;
  skip_blanks(text);
  const std::int64_t unit = take_unit(text);
  // "12.34.56" is refused; "12.34 .56" is two numbers.
  if (text.size() == number_end.size() && !text.empty()) return std::nullopt;
  std::int64_t sum = 0;
  if (__builtin_mul_overflow(whole, unit, &sum)) return std::nullopt;
  std::int64_t place = unit / 10;
  for (const char digit : fraction) {
    sum += place * (digit - '0');  // below `unit` in all
    place /= 10;
  }
  return sum < whole ? std::nullopt : std::optional(sum);
}

}  // namespace

std::optional<std::int64_t> parse_permyriad(std::string_view text) {
  struct Sign {
    std::string_view text;
    std::size_t decimals;
  };
  constexpr std::array<Sign, 3> kSigns{{{"\u2031", 0}, {"\u2030", 1}, {"%", 2}}};
  for (const Sign& sign : kSigns) {
    if (!text.ends_with(sign.text)) continue;
    text.remove_suffix(sign.text.size());
    const auto value = parse_decimal(text, sign.decimals);
    return value && *value <= kPermyriadMax ? value : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::chrono::microseconds> parse_systemd_span(std::string_view text) {
  std::string_view rest = trim(text);
  if (rest == "infinity") return kInfiniteSpan;
  std::int64_t sum = 0;
  bool any = false;
  while (true) {
    skip_blanks(rest);
    if (rest.empty()) break;
    const auto part = take_part(rest);
    if (!part || __builtin_add_overflow(sum, *part, &sum)) return std::nullopt;
    any = true;
  }
  return any ? std::optional(std::chrono::microseconds(sum)) : std::nullopt;
}

}  // namespace forestall::intake
