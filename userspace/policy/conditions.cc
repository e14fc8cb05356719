// SPDX-License-Identifier: Apache-2.0
#include "policy/conditions.h"

#include <algorithm>
#include <cstddef>

#include "policy/saturating.h"

namespace forestall::policy {

Conditions report(const Pressure& pressure, Duration transition, MonotonicTime now,
                  Reports& reports) {
  Conditions conditions = kNoConditions;
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    State::Reported& known = reports[i];
    if (pressure[i]) known.last_met = now;
    const bool status = known.last_met && elapsed(*known.last_met, now) < transition;
    conditions[i] = {kConditions[i], status, status != known.status, known.last_met};
    known.status = status;
  }
  return conditions;
}

void keep_pressure(const Reports& met, Reports& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].last_met = std::max(reports[i].last_met, met[i].last_met);
  }
}

}  // namespace forestall::policy
