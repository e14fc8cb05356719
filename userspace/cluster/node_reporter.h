// SPDX-License-Identifier: Apache-2.0
// Keeps the node's object as the agent's state is: a state machine without I/O. Each round reads
// the object, then changes what differs; a change by another program in between repeats the round.
// Before anything is to be reported it reads the object once: what an earlier process left there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/node_object.h"
#include "cluster/node_state.h"
#include "cluster/request_source.h"
#include "kubernetes/backoff.h"

namespace forestall::cluster {

class NodeReporter final : public RequestSource {
 public:
  // As the kubelet and node-problem-detector report conditions that do not change.
  static constexpr Duration kHeartbeat = std::chrono::minutes(5);

  // `taint`: whether pressure taints the node; without, the taint is removed. `wall`: seconds of
  // the wall clock. `chance` returns numbers in [0, 1).
  NodeReporter(std::string node, bool taint, std::function<std::int64_t()> wall,
               std::function<double()> chance)
      : node_(std::move(node)), taint_(taint), wall_(std::move(wall)), chance_(std::move(chance)) {}

  void set(const NodeCondition& report, MonotonicTime now);
  // Removes the condition and the taint, at once. No set() afterwards.
  void withdraw(MonotonicTime now);
  // The node's object may be another one: it is read now instead of at the next heartbeat.
  void read_again(MonotonicTime now);
  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;
  // The node's object as it was first read; nothing: it was not read yet.
  [[nodiscard]] const std::optional<NodeObject>& found() const { return found_; }
  // What the server has; nothing: not known yet.
  [[nodiscard]] const std::optional<NodeCondition>& reported() const { return reported_; }
  // Of the node's object, as last read; empty: it was not read yet, or there was none.
  [[nodiscard]] const std::string& node_uid() const { return object_.uid; }
  // Why the last request had no success; empty: it had.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  enum class WriteStep : std::uint8_t { read, change, condition };

  [[nodiscard]] bool has_work() const;
  void accepted(std::string_view body, MonotonicTime now);
  void failed(const std::string& problem, MonotonicTime now);
  void written(MonotonicTime now);

  const std::string node_;
  const bool taint_;
  const std::function<std::int64_t()> wall_;
  const std::function<double()> chance_;
  std::optional<NodeCondition> wanted_;
  std::optional<NodeCondition> reported_;
  // Of the round.
  WriteStep step_ = WriteStep::read;
  NodeCondition writing_;
  NodeObject object_;
  std::optional<NodeObject> found_;
  bool sent_ = false;
  MonotonicTime not_before_{};
  kubernetes::Backoff backoff_;
  std::string problem_;
};

}  // namespace forestall::cluster
