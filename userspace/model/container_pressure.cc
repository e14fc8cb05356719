// SPDX-License-Identifier: Apache-2.0
#include "model/container_pressure.h"

#include <algorithm>

namespace forestall {

std::string_view to_string(PressureSignal signal) {
  switch (signal) {
    case PressureSignal::high: return "high";
    case PressureSignal::max: return "max";
    case PressureSignal::psi: return "psi";
  }
  return "unknown";
}

std::optional<PressureSignal> parse_pressure_signal(std::string_view text) {
  const auto found = std::ranges::find_if(
      kPressureSignals, [&](PressureSignal each) { return to_string(each) == text; });
  return found == kPressureSignals.end() ? std::nullopt : std::optional(*found);
}

std::string_view to_string(PressureStage stage) {
  switch (stage) {
    case PressureStage::none: return "none";
    case PressureStage::reclaim: return "reclaim";
    case PressureStage::lift: return "lift";
    case PressureStage::evict: return "evict";
    case PressureStage::kill: return "kill";
  }
  return "unknown";
}

std::optional<PressureStage> parse_pressure_stage(std::string_view text) {
  const auto found = std::ranges::find_if(
      kPressureStages, [&](PressureStage each) { return to_string(each) == text; });
  return found == kPressureStages.end() ? std::nullopt : std::optional(*found);
}

std::string_view to_string(PressureCause cause) {
  switch (cause) {
    case PressureCause::none: return "none";
    case PressureCause::unknown: return "unknown";
    case PressureCause::own_limit: return "own-limit";
    case PressureCause::limit_above: return "limit-above";
    case PressureCause::node: return "node";
  }
  return "unknown";
}

}  // namespace forestall
