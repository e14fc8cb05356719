// SPDX-License-Identifier: Apache-2.0
// What the node's object should report about the agent, from the agent's answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "forestall/v1/status.pb.h"

namespace forestall::cluster {

struct NodeCondition {
  enum class Pressure : std::uint8_t {
    unknown,
    no,
    yes,
    withdrawn,  // the node has neither condition nor taint; the annotation stays as it is
  };

  Pressure pressure = Pressure::unknown;
  bool unguarded = true;

  friend bool operator==(const NodeCondition&, const NodeCondition&) = default;
};

class NodeState {
 public:
  // Without an answer of the agent for so long, the node is unguarded. A rolling update, or a
  // restart, takes less.
  static constexpr Duration kAwayAfter = std::chrono::seconds(20);

  explicit NodeState(MonotonicTime start) : answered_(start) {}

  void answered(const v1::AgentStatus& status, MonotonicTime now);
  // The node's object has pressure that an earlier process reported, last at `reported`; nothing:
  // at an unknown time, because the clock was set back since.
  void take_over(std::optional<MonotonicTime> reported, MonotonicTime now);
  // Nothing: the agent has not answered yet, and may still do so.
  [[nodiscard]] std::optional<NodeCondition> report(MonotonicTime now) const;
  // When report() changes without an answer; nothing: not by time alone.
  [[nodiscard]] std::optional<MonotonicTime> due(MonotonicTime now) const;

 private:
  MonotonicTime answered_;  // or the start
  // Of the agent's last answer; nothing: it has not evaluated yet.
  std::optional<bool> is_pressed_;
  MonotonicTime agent_start_{};
  Duration transition_{};
  std::optional<MonotonicTime> pressed_;  // when an agent last reported pressure
  // It may have been the agent before: the transition period counts from `pressed_`, once.
  bool may_be_of_another_agent_ = false;
};

}  // namespace forestall::cluster
