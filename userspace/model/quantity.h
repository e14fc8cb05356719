// SPDX-License-Identifier: Apache-2.0
// Kubernetes quantities ("100Mi", "0.5", "1e3") read and printed exactly as apimachinery does
// (staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace forestall {

enum class QuantityFormat : std::uint8_t { binary_si, decimal_si, decimal_exponent };

// An exact decimal number: nanos / 10^9. 128 bits hold every quantity kubelet can (2^63-1 and 9
// decimals below the point).
struct Quantity {
  __int128 nanos = 0;
  QuantityFormat format = QuantityFormat::decimal_si;

  // The value rounded up to a whole number, as Quantity.Value() does. Saturates at int64.
  [[nodiscard]] std::int64_t value() const;
  [[nodiscard]] Bytes bytes() const { return {value()}; }
  // Canonical form: "1536Mi" for 1.5Gi, "2k" for 2000.
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nanos == b.nanos; }
  friend auto operator<=>(const Quantity& a, const Quantity& b) { return a.nanos <=> b.nanos; }
};

// Errors carry apimachinery's own wording.
[[nodiscard]] Result<Quantity> parse_quantity(std::string_view text);

// Bytes as kubelet prints a binary quantity: 1572864 -> "1536Ki", 1023 -> "1023".
[[nodiscard]] std::string binary_quantity(Bytes bytes);

}  // namespace forestall
