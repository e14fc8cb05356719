// SPDX-License-Identifier: Apache-2.0
#include "policy/capacity_lines.h"

namespace forestall::policy {
namespace {

Quantity met_below(const Evidence& evidence) {
  Quantity limit = evidence.limit;
  if (evidence.driving && evidence.threshold.min_reclaim) {
    limit.nanos += evidence.threshold.min_reclaim->of(evidence.capacity).nanos;
  }
  return limit;
}

}  // namespace

std::vector<CapacityLine> capacity_lines(const Decision& decision) {
  std::vector<CapacityLine> lines;
  for (const Evidence& evidence : decision.evidence) {
    const Signal signal = evidence.threshold.signal;
    if (row_of(signal).watch != SignalWatch::capacity_poll) continue;
    lines.push_back({signal, met_below(evidence).value(), evidence.available});
  }
  return lines;
}

}  // namespace forestall::policy
