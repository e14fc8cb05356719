// SPDX-License-Identifier: Apache-2.0
#include "rulesets/standalone_senpai.h"

#include <algorithm>

namespace forestall::rulesets {
namespace {

constexpr std::int64_t kPageSize = 4096;

// Clamped, then whole pages: Cgroup.import_limit().
std::int64_t imported(const StandaloneSenpai& config, double limit) {
  const double low = static_cast<double>(config.min_size);
  const double high = static_cast<double>(config.max_size);
  return static_cast<std::int64_t>(std::max(low, std::min(high, limit))) & ~(kPageSize - 1);
}

double part_of(double error, double coefficient, double most) {
  const double part = error / coefficient;
  return std::min(part * part * most, most);
}

}  // namespace

std::optional<RuleWrite> step(const StandaloneSenpai& config,
                              std::optional<StandaloneSenpaiState>& state,
                              const RuleObservation& observed) {
  const Cgroup* cgroup = observed.find(config.cgroup);
  const bool has_pressure =
      cgroup != nullptr && cgroup->memory_pressure && cgroup->memory_pressure->some;
  const auto total =
      has_pressure ? cgroup->memory_pressure->some->total_us : std::optional<std::int64_t>();
  if (!total || !cgroup->current) {
    state.reset();
    return std::nullopt;
  }
  const auto write = [&](std::int64_t limit) {
    state->limit = limit;
    return RuleWrite{cgroup->path, "memory.high", state->limit, std::nullopt};
  };
  if (!state) {
    state = StandaloneSenpaiState{0, *total, 0, config.interval};
    return write(imported(config, static_cast<double>(*cgroup->current)));
  }
  state->integral += *total - state->last_total;
  state->last_total = *total;
  const auto pressure = static_cast<double>(config.pressure);
  double change = 0;
  if (state->integral > config.pressure) {
    change = part_of(static_cast<double>(state->integral) / pressure, config.coeff_backoff,
                     config.max_backoff);
  } else if (state->grace > 0) {
    --state->grace;
    return std::nullopt;
  } else {
    const auto integral = static_cast<double>(std::max<std::int64_t>(state->integral, 1));
    change = -part_of(pressure / integral, config.coeff_probe, config.max_probe);
  }
  state->integral = 0;
  state->grace = config.interval - 1;
  // Another program changed the limit: it begins anew at the usage, and the change is dropped.
  if (cgroup->high != state->limit) {
    return write(imported(config, static_cast<double>(*cgroup->current)));
  }
  const auto from = static_cast<double>(state->limit);
  return write(imported(config, from + from * change));
}

}  // namespace forestall::rulesets
