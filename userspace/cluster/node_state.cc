// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state.h"

#include <algorithm>

namespace forestall::cluster {
namespace {

// The condition of the agent, which keeps it for the transition period as the kubelet does.
bool reports_pressure(const v1::AgentStatus& status) {
  return std::ranges::any_of(status.conditions(), [](const v1::ConditionStatus& each) {
    return each.type() == "MemoryPressure" && each.status();
  });
}

}  // namespace

void NodeState::answered(const v1::AgentStatus& status, MonotonicTime now) {
  answered_ = now;
  if (!status.has_config()) return;  // it has not evaluated yet
  if (reports_pressure(status)) {
    pressed_ = now;
    pressure_ = NodeCondition::Pressure::yes;
    return;
  }
  // An agent that was started again does not have the transition period of the one before.
  const Duration uptime(status.uptime_ns());
  const Duration transition(status.config().pressure_transition_ns());
  const bool is_held = pressed_ && now - *pressed_ > uptime && now - *pressed_ < transition;
  pressure_ = is_held ? NodeCondition::Pressure::yes : NodeCondition::Pressure::no;
}

std::optional<NodeCondition> NodeState::report(MonotonicTime now) const {
  if (now - answered_ >= kAwayAfter) return NodeCondition{};
  if (!pressure_) return std::nullopt;
  return NodeCondition{*pressure_, false};
}

std::optional<MonotonicTime> NodeState::due(MonotonicTime now) const {
  const MonotonicTime away = answered_ + kAwayAfter;
  return away > now ? std::optional(away) : std::nullopt;
}

}  // namespace forestall::cluster
