// SPDX-License-Identifier: Apache-2.0
// Durations with Go's exact arithmetic: unsigned 64-bit nanoseconds up to 2^63, and fractions
// through a double, because "0.3h" must give the same nanoseconds as in kubelet.
#include "model/duration.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>

namespace forestall {
namespace {

constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;

struct DurationUnit {
  std::string_view name;
  std::uint64_t nanos;
};
constexpr std::array kUnits{
    DurationUnit{"ns", 1},
    DurationUnit{"us", 1'000},
    DurationUnit{"\u00b5s", 1'000},  // micro sign
    DurationUnit{"\u03bcs", 1'000},  // Greek small letter mu
    DurationUnit{"ms", 1'000'000},
    DurationUnit{"s", 1'000'000'000},
    DurationUnit{"m", 60'000'000'000},
    DurationUnit{"h", 3'600'000'000'000},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Go's quoting of a bad duration: printable ASCII as it is, every other byte as \xNN.
std::string quote(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || byte < ' ') {
      quoted += "\\x";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// Takes the leading digits off `text`; nullopt if they exceed 2^63.
std::optional<std::uint64_t> take_integer(std::string_view& text) {
  std::uint64_t value = 0;
  for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1)) {
    if (value > kLimit / 10) return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(text.front() - '0');
    if (value > kLimit) return std::nullopt;
  }
  return value;
}

struct Fraction {
  std::uint64_t digits = 0;
  double scale = 1;  // the fraction is digits / scale
};

// Takes the leading digits off `text`; those beyond 63 bits of precision are read and ignored.
Fraction take_fraction(std::string_view& text) {
  Fraction fraction;
  bool full = false;
  for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1)) {
    if (full) continue;
    if (fraction.digits > (kLimit - 1) / 10) {
      full = true;
      continue;
    }
    const auto next = fraction.digits * 10 + static_cast<std::uint64_t>(text.front() - '0');
    if (next > kLimit) {
      full = true;
      continue;
    }
    fraction.digits = next;
    fraction.scale *= 10;
  }
  return fraction;
}

std::string_view take_unit(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && text[end] != '.' && !is_digit(text[end])) ++end;
  const auto unit = text.substr(0, end);
  text.remove_prefix(end);
  return unit;
}

std::optional<std::uint64_t> unit_nanos(std::string_view name) {
  for (const DurationUnit& unit : kUnits) {
    if (unit.name == name) return unit.nanos;
  }
  return std::nullopt;
}

// Takes one "12.5ms" off `text`. `whole` is used only in errors.
Result<std::uint64_t> take_term(std::string_view& text, std::string_view whole) {
  const Error invalid = error("time: invalid duration " + quote(whole));
  if (text.front() != '.' && !is_digit(text.front())) return invalid;
  const auto before = text.size();
  const auto integer = take_integer(text);
  if (!integer) return invalid;
  bool has_digits = text.size() != before;
  Fraction fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const auto point = text.size();
    fraction = take_fraction(text);
    has_digits |= text.size() != point;
  }
  if (!has_digits) return invalid;

  const auto name = take_unit(text);
  if (name.empty()) return error("time: missing unit in duration " + quote(whole));
  const auto unit = unit_nanos(name);
  if (!unit) return error("time: unknown unit " + quote(name) + " in duration " + quote(whole));
  if (*integer > kLimit / *unit) return invalid;
  std::uint64_t nanos = *integer * *unit;
  if (fraction.digits > 0) {
    nanos += static_cast<std::uint64_t>(static_cast<double>(fraction.digits) *
                                        (static_cast<double>(*unit) / fraction.scale));
    if (nanos > kLimit) return invalid;
  }
  return nanos;
}

// `value` in units of 10^places as "12.5", without trailing zeros.
std::string with_fraction(std::uint64_t value, int places) {
  std::string digits;
  bool nonzero = false;
  for (int i = 0; i < places; ++i, value /= 10) {
    nonzero |= value % 10 != 0;
    if (nonzero) digits.insert(digits.begin(), static_cast<char>('0' + value % 10));
  }
  return std::to_string(value) + (digits.empty() ? "" : "." + digits);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const std::string_view whole = text;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return Duration(0);
  if (text.empty()) return error("time: invalid duration " + quote(whole));
  std::uint64_t total = 0;
  while (!text.empty()) {
    total += TRY(take_term(text, whole));
    if (total > kLimit) return error("time: invalid duration " + quote(whole));
  }
  if (negative) {
    // -2^63 is a valid duration although 2^63 is not; unsigned negation wraps to it.
    return Duration(static_cast<std::int64_t>(std::uint64_t{0} - total));
  }
  if (total == kLimit) return error("time: invalid duration " + quote(whole));
  return Duration(static_cast<std::int64_t>(total));
}

std::string to_string(Duration duration) {
  const std::int64_t count = duration.count();
  if (count == 0) return "0s";
  const std::string sign = count < 0 ? "-" : "";
  const auto size = static_cast<std::uint64_t>(count);
  const std::uint64_t nanos = count < 0 ? std::uint64_t{0} - size : size;
  if (nanos < 1'000) return sign + std::to_string(nanos) + "ns";
  if (nanos < 1'000'000) return sign + with_fraction(nanos, 3) + "\u00b5s";
  if (nanos < 1'000'000'000) return sign + with_fraction(nanos, 6) + "ms";

  constexpr std::uint64_t kMinute = 60'000'000'000;
  const std::uint64_t minutes = nanos / kMinute;
  std::string text = sign;
  if (minutes >= 60) text += std::to_string(minutes / 60) + "h";
  if (minutes > 0) text += std::to_string(minutes % 60) + "m";
  return text + with_fraction(nanos % kMinute, 9) + "s";
}

std::string brief(Duration duration) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t ns = duration.count();
  std::int64_t step = 1;
  // A step of a second keeps three digits from 100 s on.
  for (std::int64_t rest = std::abs(ns / 1000); rest > 0 && step < kSecond; rest /= 10) step *= 10;
  const std::int64_t part = ns % step;
  std::int64_t rounded = ns - part;
  const bool up = part != 0 && std::abs(part) >= step - std::abs(part);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() - step;
  if (up && std::abs(rounded) <= most) rounded += part > 0 ? step : -step;
  return to_string(Duration(rounded));
}

std::string offset(Duration duration) {
  const auto ms = std::chrono::round<std::chrono::milliseconds>(duration).count();
  const std::int64_t all = std::abs(ms);
  std::string text = ms < 0 ? "-" : "+";
  const std::int64_t hours = all / 3'600'000;
  const std::int64_t minutes = all / 60'000 % 60;
  if (hours > 0) text += std::to_string(hours) + "h";
  if (hours > 0 || minutes > 0) text += std::to_string(minutes) + "m";
  const std::string thousandths = std::to_string(all % 1000);
  return text + std::to_string(all / 1000 % 60) + "." + std::string(3 - thousandths.size(), '0') +
         thousandths + "s";
}

}  // namespace forestall
