// SPDX-License-Identifier: Apache-2.0
#include "intake/amounts.h"

#include <charconv>
#include <cmath>

#include "model/duration.h"
#include "model/quantity.h"

namespace forestall::intake {
namespace {

constexpr __int128 kNanosPerByte = 1'000'000'000;
constexpr std::string_view kQuantityForm = "write a quantity like 100Mi or 1.5Gi";
constexpr std::string_view kAmountForm =
    "write a quantity like 100Mi or 1.5Gi, or a percentage like 5%";

std::string found(std::string_view text) {
  return ", found '" + std::string(text) + "'";
}

// Corrects notations that other programs use: 100MB, 100MiB, 100mb, 100 Mi, 64K, 64ki. Nothing if
// no simple correction yields a quantity.
std::optional<std::string> repair(std::string_view text) {
  std::string tried;
  for (const char c : text) {
    if (c != ' ' && c != '_' && c != ',') tried += c;
  }
  if (tried.ends_with('B') || tried.ends_with('b')) tried.pop_back();
  const bool binary = tried.ends_with('i');
  if (binary) tried.pop_back();
  if (tried.empty()) return std::nullopt;
  char& unit = tried.back();
  if (unit >= 'a' && unit <= 'z' && unit != 'e') unit = static_cast<char>(unit - 'a' + 'A');
  if (!binary && unit == 'K') unit = 'k';
  if (binary) tried += 'i';
  return parse_quantity(tried).ok() ? std::optional(tried) : std::nullopt;
}

Result<Quantity> quantity(std::string_view text, std::string_view form) {
  Result<Quantity> parsed = parse_quantity(text);
  if (parsed) return parsed;
  const auto meant = repair(text);
  return error("'" + std::string(text) + "' is not an amount; " +
               (meant ? "did you mean '" + *meant + "'?" : std::string(form)));
}

// For a number that does not fit into a 32-bit float: whether it is too small instead of too large.
bool is_tiny(std::string_view digits) {
  const std::size_t exponent = digits.find_first_of("eE");
  if (exponent != std::string_view::npos) return digits.substr(exponent + 1).starts_with('-');
  const std::size_t first = digits.find_first_not_of("-0");
  return first != std::string_view::npos && digits[first] == '.';
}

// `text` ends in '%'. The fraction in kubelet's own 32-bit arithmetic: all trailing '%' are
// removed, and the rest is parsed like Go's ParseFloat() (except for hexadecimal forms) and divided
// by 100.
Result<float> fraction(std::string_view text) {
  std::string_view digits = text.substr(0, text.find_last_not_of('%') + 1);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  float percent = 0;
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), percent);
  // Go parses a number that is too small for the type as 0; a number that is too large is an error.
  const bool tiny = failure == std::errc::result_out_of_range && is_tiny(digits);
  if (tiny) percent = 0;
  if ((failure != std::errc{} && !tiny) || end != digits.data() + digits.size() ||
      std::isnan(percent)) {
    return error("'" + std::string(text) + "' is not a percentage; write one like 5% or 7.5%");
  }
  return percent / 100;
}

}  // namespace

Result<std::optional<Limit>> parse_threshold_limit(std::string_view text) {
  if (text.ends_with('%')) {
    if (text == "0%" || text == "100%") return std::optional<Limit>();
    const float share = TRY(fraction(text));
    if (share < 0) return error("must be >= 0%" + found(text));
    if (share > 1) return error("must be <= 100%" + found(text));
    return std::optional(Limit::share(share));
  }
  const Quantity amount = TRY(quantity(text, kAmountForm));
  if (amount.nanos <= 0) return error("must be positive" + found(text));
  return std::optional(Limit{amount, std::nullopt});
}

Result<Limit> parse_minimum_reclaim(std::string_view text) {
  if (text.ends_with('%')) {
    const float share = TRY(fraction(text));
    if (share <= 0) return error("must be positive" + found(text));
    if (std::isinf(share)) return error("must be a finite percentage" + found(text));
    return Limit::share(share);
  }
  const Quantity amount = TRY(quantity(text, kAmountForm));
  if (amount.nanos < 0) return error("must not be negative" + found(text));
  return Limit{amount, std::nullopt};
}

Result<Quantity> parse_amount(std::string_view text) {
  return quantity(text, kQuantityForm);
}

Result<Bytes> parse_bytes(std::string_view text) {
  const Quantity amount = TRY(quantity(text, kQuantityForm));
  if (amount.nanos < 0) return error("must not be negative" + found(text));
  return amount.bytes();
}

Result<Bytes> parse_positive_bytes(std::string_view text) {
  const Quantity amount = TRY(quantity(text, kQuantityForm));
  if (amount.nanos <= 0) return error("must be above 0" + found(text));
  return amount.bytes();
}

Result<Duration> parse_duration_within(std::string_view text, Duration min, Duration max) {
  Result<Duration> parsed = parse_duration(text);
  const std::string bounds = to_string(min) + " to " + to_string(max);
  if (!parsed) {
    return error("'" + std::string(text) +
                 "' is not a duration; write one like 500ms, 10s or 1m30s, from " + bounds);
  }
  if (*parsed < min || *parsed > max) return error("must be from " + bounds + found(text));
  return *parsed;
}

std::optional<std::string> doubt_amount(std::string_view text) {
  if (text.ends_with('%')) return std::nullopt;
  const Result<Quantity> parsed = parse_quantity(text);
  if (!parsed || parsed->nanos % kNanosPerByte == 0) return std::nullopt;
  std::string doubt = "'" + std::string(text) + "' is not a whole number of bytes";
  if (text.ends_with('m')) {
    const std::string number(text.substr(0, text.size() - 1));
    doubt += " (m means one thousandth); did you mean '" + number + "Mi'?";
  } else {
    doubt += "; it is rounded to " + std::to_string(parsed->value());
  }
  return doubt;
}

}  // namespace forestall::intake
