// SPDX-License-Identifier: Apache-2.0
#include "intake/oomd_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/quotes.h"
#include "text/json_number.h"

namespace forestall::intake {
namespace {

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The whole number at the beginning of `text`, as strtoll() reads it.
struct Prefix {
  std::optional<std::int64_t> number;  // nothing: no digits, or more than 64 bits
  std::size_t end = 0;                 // of what was read
};

Prefix integer_prefix(std::string_view text) {
  Prefix prefix;
  std::size_t i = 0;
  while (i < text.size() && is_blank(text[i])) ++i;
  const bool negative = i < text.size() && text[i] == '-';
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  const std::size_t digits = i;
  std::int64_t number = 0;
  bool overflow = false;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    const int digit = text[i] - '0';
    overflow = overflow || __builtin_mul_overflow(number, 10, &number) ||
               __builtin_sub_overflow(number, digit, &number);
  }
  if (i == digits) return prefix;
  prefix.end = i;
  if (!negative) overflow = overflow || __builtin_sub_overflow(std::int64_t{0}, number, &number);
  if (!overflow) prefix.number = number;
  return prefix;
}

int shift_of(char unit) {
  switch (unit) {
    case 'k': return 10;
    case 'm': return 20;
    case 'g': return 30;
    case 't': return 40;
    default: return -1;
  }
}

Error not_a_size(std::string_view text) {
  return error(fmt::format("expected a size, such as 100 (MiB), 1.5G, 512M or 10%, found {}",
                           in_quotes(text)));
}

Result<rulesets::SizeOrPercent> parse_parts(std::string_view given) {
  if (integer_prefix(given).end == 0) return not_a_size(given);
  std::string text;
  for (const char c : given) {
    if (!is_blank(c)) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  // The sign is that of the sum; no part has one.
  const bool negative = text.front() == '-';
  const char* at = text.c_str() + (negative || text.front() == '+' ? 1 : 0);
  long double sum = 0;
  while (*at != '\0') {
    char* end = nullptr;
    const long double number = std::strtold(at, &end);
    if (end == at || !std::isfinite(number) || number < 0) return not_a_size(given);
    at = end;
    if (*at == '\0') {
      sum = std::trunc(sum + number);
      break;
    }
    const int shift = shift_of(*at++);
    if (shift < 0) return not_a_size(given);
    sum = std::trunc(sum + std::ldexp(number, shift));
  }
  if (sum >= 0x1p62L) return error(fmt::format("{} is too large", in_quotes(given)));
  return rulesets::SizeOrPercent{false, static_cast<std::int64_t>(negative ? -sum : sum)};
}

}  // namespace

Result<std::int64_t> parse_oomd_int(std::string_view text) {
  const Prefix prefix = integer_prefix(text);
  const bool fits = prefix.number && *prefix.number >= std::numeric_limits<std::int32_t>::min() &&
                    *prefix.number <= std::numeric_limits<std::int32_t>::max();
  if (fits && prefix.end == text.size()) return *prefix.number;
  if (fits) {
    return error(fmt::format("expected a whole number, found {}; oomd would ignore what follows {}",
                             in_quotes(text), *prefix.number));
  }
  if (prefix.end > 0) return error(fmt::format("{} does not fit 32 bits", in_quotes(text)));
  return error(fmt::format("expected a whole number, found {}", in_quotes(text)));
}

Result<rulesets::SizeOrPercent> parse_oomd_size(std::string_view text) {
  if (text.ends_with('%')) {
    const Prefix percent = integer_prefix(text.substr(0, text.size() - 1));
    if (percent.number && *percent.number >= 0 && *percent.number <= 100) {
      return rulesets::SizeOrPercent{true, *percent.number};
    }
    return error(fmt::format("expected 0% to 100%, found {}", in_quotes(text)));
  }
  const Prefix whole = integer_prefix(text);
  if (whole.end == text.size() && whole.end > 0) {
    std::int64_t bytes = 0;
    if (!whole.number || __builtin_mul_overflow(*whole.number, 1 << 20, &bytes)) {
      return error(fmt::format("{} is too large", in_quotes(text)));
    }
    return rulesets::SizeOrPercent{false, bytes};
  }
  return parse_parts(text);
}

std::optional<std::string> oomd_text(const text::JsonNode& node) {
  using Kind = text::JsonNode::Kind;
  if (node.kind == Kind::string) return node.text;
  if (node.kind == Kind::boolean) return node.flag ? "true" : "false";
  if (node.kind != Kind::number) return std::nullopt;
  // Whole numbers remain as they are; others have 17 digits.
  if (node.text.find_first_of(".eE") == std::string::npos) return node.text;
  double real = 0;
  if (text::read_real(node.text, real)) return node.text;
  std::string text = fmt::format("{:.17g}", real);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace forestall::intake
