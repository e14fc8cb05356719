// SPDX-License-Identifier: Apache-2.0
#include "model/threshold.h"

#include <cstdint>
#include <limits>

namespace forestall {

Quantity Limit::of(std::int64_t capacity) const {
  if (quantity) return *quantity;
  // A minimum reclaim may be many times the capacity. Casting a double that does not fit is
  // undefined, so the amount saturates. "NaN%" gives the minimum, as in Go on x86-64.
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const double amount = static_cast<double>(capacity) * static_cast<double>(*fraction);
  if (amount >= 0x1p63) return binary(kMax);
  if (!(amount >= -0x1p63)) return binary(kMin);
  return binary(static_cast<std::int64_t>(amount));
}

std::string_view to_string(WorkloadClass of) {
  switch (of) {
    case WorkloadClass::guaranteed: return "guaranteed";
    case WorkloadClass::burstable: return "burstable";
    case WorkloadClass::best_effort: return "bestEffort";
    case WorkloadClass::other: return "other";
  }
  return "";
}

std::optional<WorkloadClass> parse_workload_class(std::string_view text) {
  for (const WorkloadClass each : kWorkloadClasses) {
    if (to_string(each) == text) return each;
  }
  return std::nullopt;
}

std::string_view to_string(Response response) {
  switch (response) {
    case Response::evict: return "evict";
    case Response::warn: return "warn";
    case Response::slow: return "slow";
  }
  return "";
}

std::optional<Response> parse_response(std::string_view text) {
  for (const Response each : {Response::evict, Response::warn, Response::slow}) {
    if (to_string(each) == text) return each;
  }
  return std::nullopt;
}

}  // namespace forestall
