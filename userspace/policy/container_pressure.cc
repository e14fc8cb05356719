// SPDX-License-Identifier: Apache-2.0
#include "policy/container_pressure.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "policy/qos.h"

namespace forestall::policy {
namespace {

constexpr std::int64_t kLimitMarginShare = 16;

bool is_near_limit(const std::optional<Bytes>& usage, const std::optional<Bytes>& limit) {
  return usage && limit && *usage >= *limit - Bytes{limit->count / kLimitMarginShare};
}

std::optional<Bytes> least(const std::optional<Bytes>& a, const std::optional<Bytes>& b) {
  return a && b ? std::min(a, b) : std::max(a, b);
}

template <typename T>
bool decreases(const std::optional<T>& from, const std::optional<T>& to) {
  return from && to && *to < *from;
}

// Counters never decrease while a cgroup lives.
bool follows_on(const ContainerPressureReading& last, const ContainerPressureReading& reading) {
  return reading.cgroup == last.cgroup && reading.at > last.at &&
         !decreases(last.high_events, reading.high_events) &&
         !decreases(last.max_events, reading.max_events) &&
         !decreases(last.some_stall, reading.some_stall);
}

// The difference over the window. Nothing: the last reading lacks the counter, or no other has it.
template <typename T>
std::optional<T> increase(const std::vector<ContainerPressureReading>& readings,
                          std::optional<T> ContainerPressureReading::*counter) {
  const auto& last = readings.back().*counter;
  if (!last) return std::nullopt;
  const auto first = std::find_if(readings.begin(), readings.end() - 1,
                                  [&](const auto& each) { return (each.*counter).has_value(); });
  if (first == readings.end() - 1 || *((*first).*counter) > *last) return std::nullopt;
  return T(*last - *((*first).*counter));
}

double seconds_of_window(const std::vector<ContainerPressureReading>& readings) {
  const Duration window = std::max(readings.back().at - readings.front().at, kPressureWindow);
  return std::chrono::duration<double>(window).count();
}

PressureValues values_of(const std::vector<ContainerPressureReading>& readings) {
  const double seconds = seconds_of_window(readings);
  PressureValues values;
  const auto rate = [&](PressureSignal signal, auto counter) {
    const auto events = increase(readings, counter);
    if (events) values[static_cast<std::size_t>(signal)] = static_cast<double>(*events) / seconds;
  };
  rate(PressureSignal::high, &ContainerPressureReading::high_events);
  rate(PressureSignal::max, &ContainerPressureReading::max_events);
  if (const auto stall = increase(readings, &ContainerPressureReading::some_stall)) {
    values[static_cast<std::size_t>(PressureSignal::psi)] =
        std::chrono::duration<double>(*stall).count() / seconds * 100;
  }
  return values;
}

void keep_window(std::vector<ContainerPressureReading>& readings) {
  const MonotonicTime begin = readings.back().at - kPressureWindow;
  while (readings.size() > 1 && readings[1].at <= begin) readings.erase(readings.begin());
}

bool has_increased(const std::vector<ContainerPressureReading>& readings, PressureSignal signal) {
  const auto grows = [&](auto counter) {
    return readings.size() > 1 &&
           decreases(readings.back().*counter, readings[readings.size() - 2].*counter);
  };
  switch (signal) {
    case PressureSignal::high: return grows(&ContainerPressureReading::high_events);
    case PressureSignal::max: return grows(&ContainerPressureReading::max_events);
    case PressureSignal::psi: return grows(&ContainerPressureReading::some_stall);
  }
  return false;
}

// Of the signals that have a threshold.
struct Comparison {
  std::optional<PressureExcess> worst;
  bool has_events = false;  // high or max is above its threshold
  bool has_known = false;
  bool has_unknown = false;
};

Comparison compare(const ContainerPressureRule& rule, const PressureValues& values) {
  Comparison result;
  for (const PressureSignal signal : kPressureSignals) {
    const auto index = static_cast<std::size_t>(signal);
    if (!rule.thresholds[index]) continue;
    if (!values[index]) {
      result.has_unknown = true;
      continue;
    }
    result.has_known = true;
    const PressureExcess excess{signal, *values[index], *rule.thresholds[index]};
    if (excess.value <= excess.threshold) continue;
    result.has_events = result.has_events || signal != PressureSignal::psi;
    if (!result.worst || excess.ratio() > result.worst->ratio()) result.worst = excess;
  }
  return result;
}

bool has_events(const PressureValues& values, PressureSignal signal) {
  return values[static_cast<std::size_t>(signal)].value_or(0) > 0;
}

// The owner of a cgroup can turn its PSI off; its events are always there.
bool is_without_events(const PressureValues& values) {
  const auto& high = values[static_cast<std::size_t>(PressureSignal::high)];
  const auto& max = values[static_cast<std::size_t>(PressureSignal::max)];
  return high && max && *high == 0 && *max == 0;
}

PressureCause cause_of(const ContainerPressureReading& reading, const PressureValues& values,
                       const PressureScene& scene) {
  if (!scene.node_short) return PressureCause::unknown;
  if (*scene.node_short) return PressureCause::node;
  const bool at_limit = has_events(values, PressureSignal::high) ||
                        has_events(values, PressureSignal::max) ||
                        is_near_limit(reading.usage, least(reading.high, reading.max));
  if (at_limit) return PressureCause::own_limit;
  const bool is_below_limits = reading.usage && reading.high && reading.max;
  return is_below_limits ? PressureCause::limit_above : PressureCause::unknown;
}

bool is_throttled(const ContainerPressureReading& reading, const PressureValues& values) {
  if (!reading.high || *reading.high == kNoMemoryLimit) return false;
  if (reading.max && *reading.high >= *reading.max) return false;
  return has_events(values, PressureSignal::high) || is_near_limit(reading.usage, reading.high);
}

Duration time_of(const ContainerPressureRule& rule, PressureStage stage) {
  switch (stage) {
    case PressureStage::none: return {};
    case PressureStage::reclaim: return rule.reclaim_time;
    case PressureStage::lift: return rule.lift_time;
    case PressureStage::evict: return rule.evict_time;
    case PressureStage::kill: return Duration::max();
  }
  return {};
}

// The time since `from`, which then is `at`.
Duration take_time(std::optional<MonotonicTime>& from, MonotonicTime at) {
  const auto before = std::exchange(from, at);
  return before && at - *before <= kPressureGapMax ? at - *before : Duration{0};
}

void move_on(const ContainerPressureRule& rule, const PressureStages& possible,
             ContainerPressureState& state) {
  if (state.stage != PressureStage::none && state.stage_for < time_of(rule, state.stage)) return;
  const auto next = std::ranges::find_if(kPressureStages, [&](PressureStage each) {
    return each > state.stage && possible.contains(each);
  });
  if (next == kPressureStages.end()) return;
  if (*next >= PressureStage::evict && state.over_for < rule.grace) return;
  state.stage = *next;
  state.stage_for = {};
}

void stop_time(ContainerPressureState& state) {
  state.over_at.reset();
  state.calm_at.reset();
  state.calm_for = {};
}

void begin_anew(ContainerPressureState& state) {
  state.shown_at.reset();
  state.over_at.reset();
  state.over_for = state.stage_for = {};
  state.stage = PressureStage::none;
}

void add_reading(ContainerPressureState& state, const ContainerPressureReading& reading) {
  if (!state.readings.empty()) {
    const ContainerPressureReading& last = state.readings.back();
    if (!follows_on(last, reading)) {
      state = {};
    } else if (reading.at - last.at > kPressureGapMax) {
      state.readings.clear();
    }
  }
  state.readings.push_back(reading);
  keep_window(state.readings);
}

bool can_help(PressureStage stage, const ContainerPressureReading& reading,
              const PressureValues& values, const Comparison& compared) {
  switch (stage) {
    case PressureStage::reclaim: return compared.has_events;
    case PressureStage::lift: return is_throttled(reading, values);
    default: return true;
  }
}

// What the stage does at this reading.
PressureStage action_of(const ContainerPressureRule& rule, const ContainerPressureState& state,
                        const PressureExcess& worst) {
  const bool is_over =
      state.stage == PressureStage::reclaim && state.stage_for >= rule.reclaim_time;
  const bool waits =
      state.stage >= PressureStage::evict && !has_increased(state.readings, worst.signal);
  return is_over || waits ? PressureStage::none : state.stage;
}

// REQUIRES: compared.worst.
void respond(const ContainerPressureRule& rule, const ContainerPressureReading& reading,
             const PressureScene& scene, const Comparison& compared, ContainerPressureStep& out) {
  ContainerPressureState& state = out.next;
  state.calm_at.reset();
  state.calm_for = {};
  if (out.cause != PressureCause::own_limit) {
    state.over_at.reset();
    return;
  }
  state.shown_at = reading.at;
  const Duration passed = take_time(state.over_at, reading.at);
  state.over_for += passed;
  state.stage_for += passed;
  PressureStages possible;
  for (const PressureStage each : kPressureStages) {
    if (can_help(each, reading, out.values, compared) && rule.stages.contains(each) &&
        !scene.impossible.contains(each)) {
      possible.insert(each);
    }
  }
  move_on(rule, possible, state);
  if (possible.contains(state.stage)) out.action = action_of(rule, state, *compared.worst);
}

void calm_down(const ContainerPressureRule& rule, const ContainerPressureReading& reading,
               const PressureScene& scene, ContainerPressureStep& out) {
  ContainerPressureState& state = out.next;
  begin_anew(state);
  state.calm_for += take_time(state.calm_at, reading.at);
  const auto& before = scene.lifted_from;
  out.restore = before && scene.working_set && !is_near_limit(scene.working_set, before) &&
                state.calm_for >= rule.calm_time;
}

// A short node needs its memory: what the container does not use of its lift is taken back.
bool is_needed_by_node(const PressureScene& scene) {
  return scene.node_short.value_or(false) && scene.lifted_from && scene.working_set &&
         *scene.working_set < *scene.lifted_from;
}

}  // namespace

ContainerPressureStep step_container_pressure(
    const ContainerPressureRule& rule, const ContainerPressureState& state,
    const std::optional<ContainerPressureReading>& reading, const PressureScene& scene) {
  ContainerPressureStep out;
  out.next = state;
  if (!reading) {
    stop_time(out.next);
    return out;
  }
  add_reading(out.next, *reading);
  const auto& shown = out.next.shown_at;
  if (shown && reading->at - *shown > kPressureWindow) begin_anew(out.next);
  out.values = values_of(out.next.readings);
  out.cause = cause_of(*reading, out.values, scene);
  const Comparison compared = compare(rule, out.values);
  out.worst = compared.worst;
  if (compared.worst) {
    respond(rule, *reading, scene, compared, out);
  } else if (compared.has_unknown && (out.next.shown_at || !compared.has_known) &&
             !(scene.lifted_from && is_without_events(out.values))) {
    stop_time(out.next);
  } else {
    calm_down(rule, *reading, scene, out);
  }
  if (is_needed_by_node(scene)) out.restore = true;
  return out;
}

bool is_idle(const ContainerPressureRule& rule, const ContainerPressureState& state,
             const PressureScene& scene) {
  if (scene.lifted_from || state.readings.size() < 2) return false;
  const Duration seen = state.readings.back().at - state.readings.front().at;
  if (seen < kPressureWindow) return false;
  const PressureValues values = values_of(state.readings);
  return std::ranges::none_of(kPressureSignals, [&](PressureSignal signal) {
    const auto index = static_cast<std::size_t>(signal);
    if (!rule.thresholds[index] || !values[index]) return false;
    const double most = signal == PressureSignal::psi ? *rule.thresholds[index] / 2 : 0;
    return *values[index] > most;
  });
}

std::optional<Bytes> full_lift(const LiftRoom& room) {
  if (!room.max || room.headroom < *room.max - room.working_set) return std::nullopt;
  return room.max;
}

bool is_exempt_from_pressure(const Pod& pod) {
  return pod.origin != PodOrigin::api || qos_class(pod) == QosClass::guaranteed;
}

bool operator<(const PressureOrder& a, const PressureOrder& b) {
  const auto key = [](const PressureOrder& each) {
    const int level = !each.qos                            ? 3
                      : *each.qos == QosClass::best_effort ? 0
                      : *each.qos == QosClass::burstable   ? 1
                                                           : 2;
    const std::int64_t priority =
        each.priority ? *each.priority : std::numeric_limits<std::int64_t>::max();
    return std::tuple(level, priority, -each.ratio, each.path);
  };
  return key(a) < key(b);
}

}  // namespace forestall::policy
