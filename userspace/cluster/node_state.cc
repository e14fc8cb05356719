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
  is_pressed_ = reports_pressure(status);
  if (*is_pressed_) {
    pressed_ = now;
    may_be_of_another_agent_ = false;
  }
  agent_start_ = now - Duration(status.uptime_ns());
  transition_ = Duration(status.config().pressure_transition_ns());
}

void NodeState::take_over(std::optional<MonotonicTime> reported, MonotonicTime now) {
  if (!reported && !pressed_) may_be_of_another_agent_ = true;
  if (!pressed_ || (reported && *pressed_ < *reported)) pressed_ = reported.value_or(now);
}

std::optional<NodeCondition> NodeState::report(MonotonicTime now) const {
  if (now - answered_ >= kAwayAfter) return NodeCondition{};
  if (!is_pressed_) return std::nullopt;
  // An agent that was started again does not have the transition period of the one before.
  const bool is_held = pressed_ && now - *pressed_ < transition_ &&
                       (*pressed_ < agent_start_ || may_be_of_another_agent_);
  const bool yes = *is_pressed_ || is_held;
  return NodeCondition{yes ? NodeCondition::Pressure::yes : NodeCondition::Pressure::no, false};
}

std::optional<MonotonicTime> NodeState::due(MonotonicTime now) const {
  const MonotonicTime away = answered_ + kAwayAfter;
  return away > now ? std::optional(away) : std::nullopt;
}

}  // namespace forestall::cluster
