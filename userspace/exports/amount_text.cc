// SPDX-License-Identifier: Apache-2.0
#include "exports/amount_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace forestall::exports {
namespace {

constexpr int kDecimalsMax = 6;

// "95.80" -> "95.8", "96.0" -> "96".
std::string trimmed(std::string number) {
  if (number.find('.') == std::string::npos) return number;
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  return number;
}

// `decimals` fewer for numbers of three digits.
std::string rounded(double number, int decimals) {
  const int shown = std::abs(number) >= 99.95 ? decimals - 1 : decimals;
  return trimmed(fmt::format("{:.{}f}", number, shown));
}

std::string binary_text(std::int64_t bytes, int decimals) {
  static constexpr std::array kUnits{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  if (std::abs(static_cast<double>(bytes)) < 1024) return fmt::format("{}", bytes);
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.5 would be shown as 1024.
  while (std::abs(amount) >= 1023.5 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return rounded(amount, decimals) + kUnits[unit];
}

std::string text_of(std::int64_t amount, Unit unit, int decimals) {
  return unit == Unit::bytes ? binary_text(amount, decimals) : fmt::format("{}", amount);
}

}  // namespace

std::string amount_text(std::int64_t amount, Unit unit) {
  return text_of(amount, unit, 1);
}

std::string less_text(std::int64_t less, std::int64_t more, Unit unit) {
  for (int decimals = 1; decimals <= kDecimalsMax; ++decimals) {
    const std::string one = text_of(less, unit, decimals);
    const std::string other = text_of(more, unit, decimals);
    if (one != other) return one + " < " + other;
  }
  return fmt::format("{} < {}", less, more);
}

std::string time_text(Duration time) {
  const double us = to_us(time);
  if (std::abs(us) < 999.5) return rounded(us, 1) + " us";
  if (std::abs(us) < 999.5e3) return rounded(us / 1e3, 1) + " ms";
  return rounded(us / 1e6, 1) + " s";
}

}  // namespace forestall::exports
