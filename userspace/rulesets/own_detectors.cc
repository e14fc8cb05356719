// SPDX-License-Identifier: Apache-2.0
#include "rulesets/own_detectors.h"

#include <map>
#include <utility>
#include <vector>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/detectors.h"
#include "rulesets/rule_amounts.h"

namespace forestall::rulesets {
namespace {

// Adds the value and drops what no window of `seconds` needs any more: all that is older than the
// newest value which is that old.
void remember(std::vector<TimedValue>& values, TimedValue value, std::int64_t seconds) {
  values.push_back(value);
  std::size_t first = 0;
  while (first + 1 < values.size() && value.time - values[first + 1].time >= seconds_of(seconds)) {
    ++first;
  }
  values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(first));
}

// What the value gained in each second, over at least the window; nothing: it is not known for so
// long.
std::optional<double> gain_per_second(const std::vector<TimedValue>& values, std::int64_t seconds) {
  const std::chrono::nanoseconds elapsed = values.back().time - values.front().time;
  if (elapsed < seconds_of(seconds)) return std::nullopt;
  const double gain =
      static_cast<double>(values.back().value) - static_cast<double>(values.front().value);
  return gain / std::chrono::duration<double>(elapsed).count();
}

std::optional<std::int64_t> value_of(RateAbove::Of of, const Cgroup& cgroup,
                                     const RuleObservation& observed) {
  if (of == RateAbove::Of::usage) return observed.usage(cgroup);
  if (!cgroup.stat) return std::nullopt;
  return of == RateAbove::Of::scans ? cgroup.stat->pgscan : cgroup.stat->refaults;
}

std::optional<PressureLine> line_of(const PressureOver& arguments, const Cgroup& cgroup) {
  const auto& file = pressure_file(cgroup, arguments.resource);
  if (!file) return std::nullopt;
  return arguments.some ? file->some : file->full;
}

}  // namespace

PluginResult detect(const PressureOver& arguments, const RuleObservation& observed,
                    PluginState& state) {
  using Average = PressureOver::Average;
  std::map<std::uint64_t, std::vector<TimedValue>> totals;
  PressureLine worst;
  double worst_value = 0;
  for (const Cgroup* each : matching(arguments.cgroups, observed)) {
    const auto line = line_of(arguments, *each);
    if (!line) continue;
    std::optional<double> value = line->avg10;
    if (arguments.measure == Average::avg60) value = line->avg60;
    if (arguments.measure == Average::avg300) value = line->avg300;
    if (arguments.measure == Average::window) {
      if (!line->total_us) continue;
      auto values = std::move(state.values[each->id]);
      // Totals only grow: a smaller one belongs to another cgroup.
      if (!values.empty() && *line->total_us < values.back().value) values.clear();
      remember(values, {observed.time, *line->total_us}, arguments.window);
      value = gain_per_second(values, arguments.window);
      if (value) *value /= 1e6 / 100;  // microseconds of each second to percent
      totals[each->id] = std::move(values);
    }
    if (!value) continue;
    const bool is_worse =
        arguments.weighted ? weighted(*line) > weighted(worst) : *value > worst_value;
    if (!is_worse) continue;
    worst = *line;
    worst_value = *value;
  }
  state.values = std::move(totals);
  const auto above = [&arguments](double value) { return value > arguments.threshold; };
  const bool long_enough = has_lasted(above(worst_value), arguments.duration, observed.time, state);
  if (!arguments.falling_at_most_to) return fires(long_enough);
  const bool falls_fast = worst.avg10 < state.last_avg10 * *arguments.falling_at_most_to;
  state.last_avg10 = worst.avg10;
  return fires(long_enough && above(worst.avg10) && !falls_fast);
}

bool is_below(const AvailableBelow& arguments, const Host& host) {
  const auto total = arguments.swap ? host.total_swap() : host.mem_total;
  const auto threshold = bytes_of(arguments.threshold, total);
  if (!threshold) return false;
  if (!arguments.swap) return host.mem_available && *host.mem_available < *threshold;
  const auto used = host.used_swap();
  return total && used && *total > 0 && *total - *used < *threshold;
}

PluginResult detect(const AvailableBelow& arguments, const RuleObservation& observed,
                    PluginState& state) {
  const bool below = is_below(arguments, observed.host);
  return fires(has_lasted(below, arguments.duration, observed.time, state));
}

PluginResult detect(const RateAbove& arguments, const RuleObservation& observed,
                    PluginState& state) {
  std::map<std::uint64_t, std::vector<TimedValue>> kept;
  bool is_above = false;
  for (const Cgroup* each : matching(arguments.cgroups, observed)) {
    const auto value = value_of(arguments.of, *each, observed);
    if (!value) continue;
    auto values = std::move(state.values[each->id]);
    remember(values, {observed.time, *value}, arguments.over);
    const auto rate = gain_per_second(values, arguments.over);
    is_above = is_above || (rate && *rate > static_cast<double>(arguments.threshold));
    kept[each->id] = std::move(values);
  }
  state.values = std::move(kept);
  return fires(is_above);
}

}  // namespace forestall::rulesets
