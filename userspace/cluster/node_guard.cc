// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_guard.h"

#include "intake/wall_time.h"

namespace forestall::cluster {

bool has_current_condition(const NodeObject& node, std::int64_t wall_seconds) {
  if (node.condition_status.empty()) return false;
  const auto written = intake::parse_wall_time(node.condition_heartbeat);
  if (!written) return false;
  const Duration age = std::chrono::seconds(wall_seconds) - Duration(*written);
  return age <= kConditionAgeMax && -age <= kConditionAgeMax;
}

std::string_view current_pressure(const NodeObject& node, std::int64_t wall_seconds) {
  if (!has_current_condition(node, wall_seconds)) return {};
  return node.condition_status;
}

std::string_view guarded_word(const NodeObject& node, std::int64_t wall_seconds) {
  if (node.is_unguarded) return "no";
  const std::string_view pressure = current_pressure(node, wall_seconds);
  return pressure == "True" || pressure == "False" ? "yes" : "unknown";
}

}  // namespace forestall::cluster
