// SPDX-License-Identifier: Apache-2.0
#include "intake/backstop.h"

#include <algorithm>
#include <utility>

namespace forestall::intake {
namespace {

// From the crossing until the victim allocates no more, on a machine whose CPUs are busy.
constexpr std::int64_t kKillsPerSecond = 100;
constexpr Bytes kLineMin = mib(16);
constexpr Bytes kLineMax = gib(1);
constexpr std::int64_t kPartMax = 20;

}  // namespace

Bytes backstop_line(const BackstopFacts& facts) {
  const Bytes most = std::clamp(Bytes{facts.memory.count / kPartMax}, kLineMin, kLineMax);
  const Bytes filled{facts.fill_rate_max / kKillsPerSecond};
  const Bytes line = std::clamp(facts.low_watermarks + filled, kLineMin, most);
  return mib(line.count / mib(1).count);
}

void add_backstop(const BackstopFacts& facts, LoadedConfig& loaded) {
  if (!loaded.needs_backstop) return;
  const Bytes line = backstop_line(facts);
  Threshold threshold;
  threshold.signal = kBackstopSignal;
  threshold.limit = Limit::bytes(line);
  loaded.config.thresholds.push_back(std::move(threshold));
  ThresholdOrigin origin;
  origin.value = binary_quantity(line);
  origin.origin.file = "backstop";
  loaded.origins.push_back(std::move(origin));
}

}  // namespace forestall::intake
