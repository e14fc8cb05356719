// SPDX-License-Identifier: Apache-2.0
#include "rulesets/detectors.h"

#include <algorithm>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/rule_amounts.h"

namespace forestall::rulesets {
namespace {

std::optional<PressureLine> full_pressure(const Cgroup& cgroup, PressureResource resource) {
  const auto& file = pressure_file(cgroup, resource);
  return file ? file->full : std::nullopt;
}

// Full pressure of the cgroup under the highest pressure.
PressureLine worst_pressure(const CgroupPatterns& cgroups, PressureResource resource,
                            const RuleObservation& observed) {
  PressureLine worst;
  for (const Cgroup* each : matching(cgroups, observed)) {
    const auto line = full_pressure(*each, resource);
    if (line && weighted(*line) > weighted(worst)) worst = *line;
  }
  return worst;
}

}  // namespace

bool has_lasted(bool met, std::int64_t duration, std::chrono::nanoseconds now, PluginState& state) {
  if (!met) {
    state.since.reset();
    return false;
  }
  if (!state.since) state.since = now;
  return seconds_between(*state.since, now) >= duration;
}

PluginResult detect(const PressureAbove& arguments, const RuleObservation& observed,
                    PluginState& state) {
  const PressureLine line = worst_pressure(arguments.cgroups, arguments.resource, observed);
  const auto threshold = static_cast<float>(arguments.threshold);
  if (!arguments.fast_fall_ratio) {
    return fires(has_lasted(line.avg10 > threshold, arguments.duration, observed.time, state));
  }
  const bool long_enough =
      has_lasted(line.avg60 > threshold, arguments.duration, observed.time, state);
  const bool falls_fast = line.avg10 < state.last_avg10 * *arguments.fast_fall_ratio;
  state.last_avg10 = line.avg10;
  return fires(long_enough && line.avg10 > threshold && !falls_fast);
}

PluginResult detect(const MemoryAbove& arguments, const RuleObservation& observed,
                    PluginState& state) {
  std::int64_t largest = 0;
  for (const Cgroup* each : matching(arguments.cgroups, observed)) {
    const auto anon = each->stat ? each->stat->anon : std::nullopt;
    const auto usage = arguments.anon   ? anon
                       : arguments.swap ? each->swap_current
                                        : observed.usage(*each);
    largest = std::max(largest, usage.value_or(0));
  }
  const auto total = arguments.swap ? observed.host.total_swap() : observed.host.mem_total;
  const auto threshold = bytes_of(arguments.threshold, total);
  return fires(
      has_lasted(threshold && largest > *threshold, arguments.duration, observed.time, state));
}

// The first sum is no growth: what was scanned before the first evaluation was not scanned within
// the duration.
PluginResult detect(const MemoryReclaim& arguments, const RuleObservation& observed,
                    PluginState& state) {
  std::int64_t sum = 0;
  for (const Cgroup* each : matching(arguments.cgroups, observed)) {
    if (each->stat && each->stat->pgscan) sum += *each->stat->pgscan;
  }
  if (state.last_scanned && sum > *state.last_scanned) state.last_growth = observed.time;
  state.last_scanned = sum;
  return fires(state.last_growth &&
               seconds_between(*state.last_growth, observed.time) <= arguments.duration);
}

PluginResult detect(const SwapFree& arguments, const RuleObservation& observed) {
  const auto total = observed.host.total_swap();
  const auto used = observed.host.used_swap();
  return fires(total && used && *total - *used < percent_of(*total, arguments.percent));
}

// What is not found may exist while cgroups are missing from the observation.
PluginResult detect(const Exists& arguments, const RuleObservation& observed) {
  if (arguments.negate && observed.incomplete) return PluginResult::stop;
  return fires(matching(arguments.cgroups, observed).empty() == arguments.negate);
}

PluginResult detect(const DyingDescendants& arguments, const RuleObservation& observed) {
  const std::vector<const Cgroup*> cgroups = matching(arguments.cgroups, observed);
  return fires(std::any_of(cgroups.begin(), cgroups.end(), [&arguments](const Cgroup* each) {
    const auto& dying = each->dying_descendants;
    return dying && (*dying <= arguments.count) == arguments.at_most;
  }));
}

}  // namespace forestall::rulesets
