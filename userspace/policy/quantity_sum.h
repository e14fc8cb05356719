// SPDX-License-Identifier: Apache-2.0
// The sum of two quantities, as in apimachinery's Quantity.Add
// (staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go). Saturates at the limits of a
// Quantity.
#pragma once

#include <limits>
#include <optional>

#include "model/quantity.h"

namespace forestall::policy {

// A zero has no format of its own: the sum has the format of the other one. Only affects text.
[[nodiscard]] constexpr Quantity sum(const Quantity& a, const Quantity& b) {
  Quantity total{.nanos = 0, .format = a.nanos == 0 ? b.format : a.format};
  if (__builtin_add_overflow(a.nanos, b.nanos, &total.nanos)) {
    using Nanos = std::numeric_limits<__int128>;
    total.nanos = b.nanos < 0 ? Nanos::min() : Nanos::max();
  }
  return total;
}

// Adds `more` to `total`. An undeclared amount adds nothing; if all are undeclared, the total stays
// undeclared instead of zero.
constexpr void accumulate(std::optional<Quantity>& total, const std::optional<Quantity>& more) {
  if (!more) return;
  total = total ? sum(*total, *more) : *more;
}

}  // namespace forestall::policy
