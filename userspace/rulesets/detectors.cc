// SPDX-License-Identifier: Apache-2.0
// oomd's detectors. A reading that is missing does not fire: neither high pressure nor a low number
// of dying cgroups is concluded from it.
#include <algorithm>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/evaluation.h"

namespace forestall::rulesets {
namespace {

PluginResult fires(bool condition) {
  return condition ? PluginResult::proceed : PluginResult::stop;
}

std::optional<PressureLine> full_pressure(const Cgroup& cgroup, PressureResource resource) {
  const auto& file = pressure_file(cgroup, resource);
  return file ? file->full : std::nullopt;
}

}  // namespace

float weighted(const PressureLine& line) {
  return 3 * line.avg10 + 2 * line.avg60 + line.avg300;
}

std::optional<std::int64_t> bytes_of(const SizeOrPercent& size, std::optional<std::int64_t> total) {
  if (!size.is_percent) return size.value;
  return total ? std::optional(percent_of(*total, size.value)) : std::nullopt;
}

bool RuleEvaluation::held(bool met, std::int64_t duration, PluginState& state) const {
  if (!met) {
    state.since.reset();
    return false;
  }
  if (!state.since) state.since = observed_.time;
  return seconds_between(*state.since, observed_.time) >= duration;
}

PressureLine RuleEvaluation::worst_pressure(const CgroupPatterns& cgroups,
                                            PressureResource resource) const {
  PressureLine worst;
  for (const Cgroup* each : matching(cgroups, observed_)) {
    const auto line = full_pressure(*each, resource);
    if (line && weighted(*line) > weighted(worst)) worst = *line;
  }
  return worst;
}

PluginResult RuleEvaluation::detect(const PressureAbove& arguments, PluginState& state) {
  const PressureLine line = worst_pressure(arguments.cgroups, arguments.resource);
  const auto threshold = static_cast<float>(arguments.threshold);
  if (!arguments.fast_fall_ratio) {
    return fires(held(line.avg10 > threshold, arguments.duration, state));
  }
  const bool long_enough = held(line.avg60 > threshold, arguments.duration, state);
  const bool falls_fast = line.avg10 < state.last_avg10 * *arguments.fast_fall_ratio;
  state.last_avg10 = line.avg10;
  return fires(long_enough && line.avg10 > threshold && !falls_fast);
}

PluginResult RuleEvaluation::detect(const MemoryAbove& arguments, PluginState& state) {
  std::int64_t largest = 0;
  for (const Cgroup* each : matching(arguments.cgroups, observed_)) {
    const auto anon = each->stat ? each->stat->anon : std::nullopt;
    const auto usage = arguments.anon   ? anon
                       : arguments.swap ? each->swap_current
                                        : observed_.usage(*each);
    largest = std::max(largest, usage.value_or(0));
  }
  const auto total = arguments.swap ? observed_.host.total_swap() : observed_.host.mem_total;
  const auto threshold = bytes_of(arguments.threshold, total);
  return fires(held(threshold && largest > *threshold, arguments.duration, state));
}

// The first sum is no growth: what was scanned before the first evaluation was not scanned within
// the duration.
PluginResult RuleEvaluation::detect(const MemoryReclaim& arguments, PluginState& state) {
  std::int64_t sum = 0;
  for (const Cgroup* each : matching(arguments.cgroups, observed_)) {
    if (each->stat && each->stat->pgscan) sum += *each->stat->pgscan;
  }
  if (state.last_scanned && sum > *state.last_scanned) state.last_growth = observed_.time;
  state.last_scanned = sum;
  return fires(state.last_growth &&
               seconds_between(*state.last_growth, observed_.time) <= arguments.duration);
}

PluginResult RuleEvaluation::detect(const SwapFree& arguments) const {
  const auto total = observed_.host.total_swap();
  const auto used = observed_.host.used_swap();
  return fires(total && used && *total - *used < percent_of(*total, arguments.percent));
}

// What is not found may exist while cgroups are missing from the observation.
PluginResult RuleEvaluation::detect(const Exists& arguments) const {
  if (arguments.negate && observed_.incomplete) return PluginResult::stop;
  return fires(matching(arguments.cgroups, observed_).empty() == arguments.negate);
}

PluginResult RuleEvaluation::detect(const DyingDescendants& arguments) const {
  const std::vector<const Cgroup*> cgroups = matching(arguments.cgroups, observed_);
  return fires(std::any_of(cgroups.begin(), cgroups.end(), [&arguments](const Cgroup* each) {
    const auto& dying = each->dying_descendants;
    return dying && (*dying <= arguments.count) == arguments.at_most;
  }));
}

}  // namespace forestall::rulesets
