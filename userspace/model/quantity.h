// SPDX-License-Identifier: Apache-2.0
// Kubernetes quantities ("100Mi", "0.5", "1e3"), parsed and printed exactly as apimachinery does
// (staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace forestall {

// How a quantity was written, which is also how it is printed.
enum class QuantityFormat : std::uint8_t { binary_si, decimal_si, decimal_exponent };

// An exact decimal number: nanos / 10^9. 128 bits hold every possible amount of memory.
// apimachinery keeps decimal quantities of any size; here they saturate beyond ±1.7e29, which no
// comparison with a byte count can notice.
struct Quantity {
  __int128 nanos = 0;
  QuantityFormat format = QuantityFormat::decimal_si;

  // The value rounded up, away from zero, to a whole number, as documented for Quantity.Value().
  // Saturates at int64.
  [[nodiscard]] std::int64_t value() const;
  [[nodiscard]] Bytes bytes() const { return {value()}; }
  // Canonical form: "1536Mi" for 1.5Gi, "2k" for 2000, "1500m" for 1.5.
  [[nodiscard]] std::string text() const;

  // By value, whatever the format: 1Ki equals 1024.
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nanos == b.nanos; }
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nanos <=> b.nanos;
  }
};

// binary(): a whole number in binary format ("1Mi"). decimal(): one in decimal format ("1M").
[[nodiscard]] constexpr Quantity binary(std::int64_t amount) {
  return {static_cast<__int128>(amount) * 1'000'000'000, QuantityFormat::binary_si};
}
[[nodiscard]] constexpr Quantity decimal(std::int64_t amount) {
  return {static_cast<__int128>(amount) * 1'000'000'000, QuantityFormat::decimal_si};
}

// Errors have apimachinery's text (ErrFormatWrong, ErrNumeric, ErrSuffix).
[[nodiscard]] Result<Quantity> parse_quantity(std::string_view text);

// Bytes in kubelet's binary format: 1572864 -> "1536Ki", 1023 -> "1023".
[[nodiscard]] std::string binary_quantity(Bytes bytes);

}  // namespace forestall
