// SPDX-License-Identifier: Apache-2.0
#include "policy/warning.h"

#include <algorithm>

namespace forestall::policy {
namespace {

constexpr Bytes kMarginMin = mib(32);
constexpr Bytes kMarginMax = gib(1);
// What two CPUs fill in a millisecond, which is several evaluations. A line nearer to the threshold
// would be evaluated while the threshold itself is crossed, and delay it.
constexpr Bytes kLeastWarning = mib(4);

Bytes part(Bytes whole, std::int64_t divisor) {
  return Bytes{whole.count / divisor};
}

bool reached(Bytes headroom, Bytes warning) {
  return headroom <= warning + part(warning, 8);
}

}  // namespace

Bytes warning_margin(Bytes capacity) {
  const Bytes wanted = std::clamp(part(capacity, 16), kMarginMin, kMarginMax);
  return std::max(std::min(wanted, part(capacity, 4)), Bytes{0});
}

std::optional<Bytes> next_warning(Bytes headroom, Bytes margin) {
  for (Bytes warning = margin; warning >= kLeastWarning; warning = part(warning, 2)) {
    if (!reached(headroom, warning)) return warning;
  }
  return std::nullopt;
}

bool in_warning_zone(Bytes headroom, Bytes margin) {
  return margin > Bytes{0} && reached(headroom, margin);
}

bool out_of_warning_zone(Bytes headroom, Bytes margin) {
  return headroom > margin + part(margin, 4);
}

}  // namespace forestall::policy
