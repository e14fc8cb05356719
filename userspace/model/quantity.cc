// SPDX-License-Identifier: Apache-2.0
// Quantities in apimachinery's three steps: split the text into number and suffix (lenient: any run
// of suffix letters, sign and digits), interpret the suffix (strict), then scale the digits to
// nanos in exact integer arithmetic. No floating point is used.
//
// What apimachinery accepts beyond its documented grammar is accepted here too, because a config
// that starts a kubelet must start Forestall. A number without digits ("", ".", "+" before a
// suffix) is 0 where apimachinery takes its int64 path, and an error elsewhere.
#include "model/quantity.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/parse.h"

namespace forestall {
namespace {

using Wide = unsigned __int128;

constexpr __int128 kNanosPerUnit = 1'000'000'000;
constexpr Wide kWideMax = static_cast<Wide>(std::numeric_limits<__int128>::max());
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
// Exponents are an int32 that apimachinery later negates, so the most negative one is refused.
constexpr std::int64_t kExponentMax = std::numeric_limits<std::int32_t>::max();

constexpr std::string_view kFormatWrong =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
constexpr std::string_view kNumericWrong = "unable to parse numeric part of quantity";
constexpr std::string_view kSuffixWrong = "unable to parse quantity's suffix";

struct Suffix {
  int base = 10;
  std::int64_t exponent = 0;
  QuantityFormat format = QuantityFormat::decimal_si;
};

struct NamedSuffix {
  std::string_view text;
  int exponent;
};
constexpr std::array kDecimalSuffixes{
    NamedSuffix{"n", -9}, NamedSuffix{"u", -6}, NamedSuffix{"m", -3}, NamedSuffix{"", 0},
    NamedSuffix{"k", 3},  NamedSuffix{"M", 6},  NamedSuffix{"G", 9},  NamedSuffix{"T", 12},
    NamedSuffix{"P", 15}, NamedSuffix{"E", 18}};
constexpr std::array kBinarySuffixes{NamedSuffix{"Ki", 10}, NamedSuffix{"Mi", 20},
                                     NamedSuffix{"Gi", 30}, NamedSuffix{"Ti", 40},
                                     NamedSuffix{"Pi", 50}, NamedSuffix{"Ei", 60}};

struct QuantityParts {
  bool negative = false;
  bool has_digits = false;    // before stripping: "0" and "-.5" have some, "." has none
  std::string_view integer;   // without leading zeros; may be empty
  std::string_view fraction;  // may be empty
  std::string_view suffix;
};

bool is_decimal_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes and returns the leading run of characters that `accept` accepts.
template <typename Accept>
std::string_view take_while(std::string_view& text, Accept accept) {
  const auto end = std::find_if_not(text.begin(), text.end(), accept);
  const auto run = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(run.size());
  return run;
}

void skip_sign(std::string_view& text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
}

// quantity.go parseQuantityString.
std::optional<QuantityParts> split(std::string_view text) {
  QuantityParts parts;
  parts.negative = text.starts_with('-');
  skip_sign(text);
  parts.has_digits = !take_while(text, [](char c) { return c == '0'; }).empty();
  // Only a sign and zeros is a plain zero, even without a digit.
  if (text.empty()) parts.has_digits = true;
  parts.integer = take_while(text, is_decimal_digit);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    parts.fraction = take_while(text, is_decimal_digit);
  }
  parts.has_digits |= !parts.integer.empty() || !parts.fraction.empty();

  parts.suffix = text;
  take_while(text, [](char c) {
    return std::string_view("eEinumkKMGTP").find(c) != std::string_view::npos;
  });
  skip_sign(text);
  take_while(text, is_decimal_digit);
  if (!text.empty()) return std::nullopt;
  return parts;
}

// A signed decimal integer with an optional plus sign, like Go's strconv.ParseInt.
std::optional<std::int64_t> parse_exponent(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.empty() || !is_decimal_digit(text.front())) return std::nullopt;
  }
  const auto exponent = parse_i64(text);
  if (!exponent || *exponent > kExponentMax || *exponent < -kExponentMax) return std::nullopt;
  return exponent;
}

// suffix.go interpret. A lone E is exa: the tables come before the exponent form.
std::optional<Suffix> interpret(std::string_view text) {
  for (const NamedSuffix& known : kDecimalSuffixes) {
    if (text == known.text) return Suffix{10, known.exponent, QuantityFormat::decimal_si};
  }
  for (const NamedSuffix& known : kBinarySuffixes) {
    if (text == known.text) return Suffix{2, known.exponent, QuantityFormat::binary_si};
  }
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  const auto exponent = parse_exponent(text.substr(1));
  if (!exponent) return std::nullopt;
  return Suffix{10, *exponent, QuantityFormat::decimal_exponent};
}

// value * 10 + digit, or kWideMax once that no longer fits.
Wide append_digit(Wide value, int digit) {
  const auto added = static_cast<Wide>(digit);
  return value > (kWideMax - added) / 10 ? kWideMax : value * 10 + added;
}

Wide read_digits(std::string_view digits) {
  Wide value = 0;
  for (const char c : digits) value = append_digit(value, c - '0');
  return value;
}

bool all_zero(std::string_view digits) {
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c == '0'; });
}

// |integer.fraction| * 10^exponent in nanos, rounded up; saturates.
Wide scale_decimal(const QuantityParts& parts, std::int64_t exponent) {
  std::string digits(parts.integer);
  digits += parts.fraction;
  if (all_zero(digits)) return 0;
  const std::int64_t shift = exponent - static_cast<std::int64_t>(parts.fraction.size()) + 9;
  if (shift >= 0) {
    Wide nanos = read_digits(digits);
    for (std::int64_t i = 0; i < shift && nanos != kWideMax; ++i) nanos = append_digit(nanos, 0);
    return nanos;
  }
  // Finer than nano: the truncated part rounds up, so that a small amount never becomes 0.
  const auto cut = static_cast<std::size_t>(-shift);
  if (cut >= digits.size()) return 1;
  const std::string_view kept = std::string_view(digits).substr(0, digits.size() - cut);
  const std::string_view lost = std::string_view(digits).substr(digits.size() - cut);
  const Wide nanos = read_digits(kept);
  return all_zero(lost) || nanos == kWideMax ? nanos : nanos + 1;
}

// |integer.fraction| * 2^exponent in nanos, rounded up; capped at 2^63-1 units.
Wide scale_binary(const QuantityParts& parts, int exponent) {
  constexpr Wide kNanos = static_cast<Wide>(kNanosPerUnit);
  constexpr Wide kCap = static_cast<Wide>(kInt64Max) * kNanos;
  const Wide whole = read_digits(parts.integer);
  if (whole > (static_cast<Wide>(kInt64Max) >> exponent)) return kCap;
  // Horner's rule from the last digit: dividing by ten at every step keeps the floor exact, and any
  // remainder means that the true value is larger. At most 2^60 * 10^9 * 10.
  const Wide unit = kNanos << exponent;
  Wide part = 0;
  bool inexact = false;
  for (auto digit = parts.fraction.rbegin(); digit != parts.fraction.rend(); ++digit) {
    part += static_cast<Wide>(*digit - '0') * unit;
    inexact |= part % 10 != 0;
    part /= 10;
  }
  return std::min(kCap, whole * unit + part + (inexact ? 1 : 0));
}

// Whether apimachinery reads a number without digits as 0: it does so on its int64 path, which it
// does not take for suffixes finer than nano and for Pi and Ei (ParseQuantity, `precision`).
bool digitless_is_zero(const Suffix& suffix) {
  return suffix.base == 10 ? suffix.exponent >= -9 : suffix.exponent <= 40;
}

std::string decimal_text(Wide value) {
  std::string digits;
  for (; value != 0; value /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + value % 10));
  return digits;
}

std::string exponent_text(int exponent) {
  return exponent == 0 ? "" : "e" + std::to_string(exponent);
}

std::string decimal_suffix(int exponent, QuantityFormat format) {
  if (format == QuantityFormat::decimal_si) {
    for (const NamedSuffix& known : kDecimalSuffixes) {
      if (known.exponent == exponent) return std::string(known.text);
    }
  }
  return exponent_text(exponent);  // also for 10^21 and up, where SI has no letter
}

// Largest power of ten that divides, lowered to a multiple of three.
std::string canonical_decimal(Wide nanos, QuantityFormat format) {
  int exponent = -9;
  while (nanos % 10 == 0) {
    nanos /= 10;
    ++exponent;
  }
  const int excess = ((exponent % 3) + 3) % 3;
  std::string digits = decimal_text(nanos);
  digits.append(static_cast<std::size_t>(excess), '0');
  return digits + decimal_suffix(exponent - excess, format);
}

// Largest power of 1024 that divides.
std::string canonical_binary(Wide units) {
  std::size_t power = 0;
  while (power < kBinarySuffixes.size() && units >= 1024 && units % 1024 == 0) {
    units /= 1024;
    ++power;
  }
  const std::string digits = decimal_text(units);
  return power == 0 ? digits : digits + std::string(kBinarySuffixes[power - 1].text);
}

Wide magnitude(__int128 value) {
  return value < 0 ? static_cast<Wide>(0) - static_cast<Wide>(value) : static_cast<Wide>(value);
}

}  // namespace

std::int64_t Quantity::value() const {
  const Wide size = magnitude(nanos);
  constexpr Wide kNanos = static_cast<Wide>(kNanosPerUnit);
  const Wide units = size / kNanos + (size % kNanos != 0 ? 1 : 0);
  if (nanos < 0) {
    if (units > static_cast<Wide>(kInt64Max)) return std::numeric_limits<std::int64_t>::min();
    return -static_cast<std::int64_t>(units);
  }
  return units > static_cast<Wide>(kInt64Max) ? kInt64Max : static_cast<std::int64_t>(units);
}

// quantity.go CanonicalizeBytes. A binary quantity that is small or not whole is printed in
// decimal, so that nothing is lost. apimachinery's String() may keep an input that it considers
// canonical enough, e.g. "+5"; this never does.
std::string Quantity::text() const {
  if (nanos == 0) return "0";
  const std::string sign = nanos < 0 ? "-" : "";
  const Wide size = magnitude(nanos);
  constexpr Wide kNanos = static_cast<Wide>(kNanosPerUnit);
  if (format != QuantityFormat::binary_si) return sign + canonical_decimal(size, format);
  if (size < 1024 * kNanos || size % kNanos != 0) {
    return sign + canonical_decimal(size, QuantityFormat::decimal_si);
  }
  return sign + canonical_binary(size / kNanos);
}

Result<Quantity> parse_quantity(std::string_view text) {
  if (text.empty()) return error(std::string(kFormatWrong));
  const auto parts = split(text);
  if (!parts) return error(std::string(kFormatWrong));
  const auto suffix = interpret(parts->suffix);
  if (!suffix) return error(std::string(kSuffixWrong));
  if (!parts->has_digits && !digitless_is_zero(*suffix)) return error(std::string(kNumericWrong));

  Quantity quantity{.nanos = 0, .format = suffix->format};
  const Wide nanos = suffix->base == 10 ? scale_decimal(*parts, suffix->exponent)
                                        : scale_binary(*parts, static_cast<int>(suffix->exponent));
  // Below one, a power of 1024 has no meaning; apimachinery drops it as well.
  if (suffix->base == 2 && nanos > 0 && nanos < static_cast<Wide>(kNanosPerUnit)) {
    quantity.format = QuantityFormat::decimal_si;
  }
  quantity.nanos = parts->negative ? -static_cast<__int128>(nanos) : static_cast<__int128>(nanos);
  return quantity;
}

std::string binary_quantity(Bytes bytes) {
  return Quantity{.nanos = static_cast<__int128>(bytes.count) * kNanosPerUnit,
                  .format = QuantityFormat::binary_si}
      .text();
}

}  // namespace forestall
