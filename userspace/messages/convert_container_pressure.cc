// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "messages/convert.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

constexpr const char* kObserve = "observe";
constexpr const char* kEnforce = "enforce";

std::optional<double>& threshold(ContainerPressureRule& rule, PressureSignal signal) {
  return rule.thresholds[static_cast<std::size_t>(signal)];
}

}  // namespace

v1::EffectiveContainerPressure to_proto(const ContainerPressureConfig& config) {
  v1::EffectiveContainerPressure out;
  ContainerPressureRule rule = config.rule;
  if (const auto& high = threshold(rule, PressureSignal::high))
    out.set_memory_high_threshold(*high);
  if (const auto& max = threshold(rule, PressureSignal::max)) out.set_memory_max_threshold(*max);
  if (const auto& psi = threshold(rule, PressureSignal::psi)) out.set_memory_psi_threshold(*psi);
  out.set_grace_ns(rule.grace.count());
  for (const PressureStage each : kPressureStages) {
    if (rule.stages.contains(each)) out.add_stages(std::string(to_string(each)));
  }
  out.set_reclaim_time_ns(rule.reclaim_time.count());
  out.set_lift_time_ns(rule.lift_time.count());
  out.set_evict_time_ns(rule.evict_time.count());
  out.set_calm_time_ns(rule.calm_time.count());
  out.set_mode(config.enforces ? kEnforce : kObserve);
  for (const std::string& each : config.cgroups) out.add_cgroups(text::to_utf8(each));
  return out;
}

Result<ContainerPressureConfig> from_proto(const v1::EffectiveContainerPressure& message) {
  ContainerPressureConfig config;
  ContainerPressureRule& rule = config.rule;
  const auto take = [&](bool has, double value, PressureSignal signal) {
    if (has) threshold(rule, signal) = value;
    return !has || value > 0;
  };
  const bool high = take(message.has_memory_high_threshold(), message.memory_high_threshold(),
                         PressureSignal::high);
  const bool max =
      take(message.has_memory_max_threshold(), message.memory_max_threshold(), PressureSignal::max);
  const bool psi =
      take(message.has_memory_psi_threshold(), message.memory_psi_threshold(), PressureSignal::psi);
  if (!high || !max || !psi) return error("a threshold is not above 0");
  for (const std::string& each : message.stages()) {
    const auto stage = parse_pressure_stage(each);
    if (!stage) return error("stages: unknown '" + each + "'");
    rule.stages.insert(*stage);
  }
  rule.grace = Duration(message.grace_ns());
  rule.reclaim_time = Duration(message.reclaim_time_ns());
  rule.lift_time = Duration(message.lift_time_ns());
  rule.evict_time = Duration(message.evict_time_ns());
  rule.calm_time = Duration(message.calm_time_ns());
  if (message.mode() != kObserve && message.mode() != kEnforce) {
    return error("mode: unknown '" + message.mode() + "'");
  }
  config.enforces = message.mode() == kEnforce;
  config.cgroups.assign(message.cgroups().begin(), message.cgroups().end());
  return config;
}

v1::ContainerPressureStatus to_proto(const ContainerPressureReport& report, std::size_t most) {
  v1::ContainerPressureStatus out;
  out.set_mode(report.enforces ? kEnforce : kObserve);
  out.set_problem(text::to_utf8(report.problem));
  const std::size_t shown = std::min(report.pressed.size(), most);
  out.set_pressed_left_out(report.pressed.size() - shown);
  for (std::size_t i = 0; i < shown; ++i) {
    const PressedCgroup& each = report.pressed[i];
    v1::PressedCgroup& pressed = *out.add_pressed();
    pressed.set_subject(text::to_utf8(each.subject));
    pressed.set_cgroup(text::to_utf8(each.path));
    pressed.set_stage(std::string(to_string(each.stage)));
    pressed.set_cause(std::string(to_string(each.cause)));
    const auto value = [&](PressureSignal signal) {
      return each.values[static_cast<std::size_t>(signal)];
    };
    if (const auto high = value(PressureSignal::high)) pressed.set_high_events(*high);
    if (const auto max = value(PressureSignal::max)) pressed.set_max_events(*max);
    if (const auto psi = value(PressureSignal::psi)) pressed.set_psi(*psi);
    pressed.set_pressed_ns(each.over_for.count());
    if (each.lifted_from) pressed.set_lifted_from(each.lifted_from->count);
    pressed.set_result(text::to_utf8(each.result));
  }
  out.set_watched(report.watched);
  out.set_not_watched(report.not_watched);
  out.set_unread(report.unread);
  out.set_exempt(report.exempt);
  out.set_unknown_pods(report.unknown_pods);
  out.set_reclaims_begun(report.begun[static_cast<std::size_t>(PressureStage::reclaim) - 1]);
  out.set_lifts_begun(report.begun[static_cast<std::size_t>(PressureStage::lift) - 1]);
  out.set_evictions_begun(report.begun[static_cast<std::size_t>(PressureStage::evict) - 1]);
  out.set_kills_begun(report.begun[static_cast<std::size_t>(PressureStage::kill) - 1]);
  out.set_reclaimed_bytes(static_cast<std::uint64_t>(report.reclaimed.count));
  out.set_lifts(report.lifts);
  out.set_restores(report.restores);
  return out;
}

}  // namespace forestall::messages
