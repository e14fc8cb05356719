// SPDX-License-Identifier: Apache-2.0
// Sends the node's NodeReport to the API server, the newest one only: a state machine without I/O.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/request_source.h"
#include "kubernetes/backoff.h"

namespace forestall::cluster {

class NodeReportWriter final : public RequestSource {
 public:
  static constexpr Duration kAnswerLongest = std::chrono::seconds(10);
  // Without the kind, or without the permission, until the next attempt.
  static constexpr Duration kRefusedDelay = std::chrono::minutes(5);

  // `chance` returns numbers in [0, 1).
  NodeReportWriter(std::string node, std::function<double()> chance)
      : node_(std::move(node)), chance_(std::move(chance)) {}

  // The object, as JSON, in place of one that was not sent yet.
  void set(std::string object, MonotonicTime now);
  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;
  // True once after the server had to create an object that it had before: another program or the
  // garbage collector has deleted it.
  [[nodiscard]] bool take_recreated() { return std::exchange(recreated_, false); }
  // Why the last request had no success; empty: it had.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const std::string node_;
  const std::function<double()> chance_;
  std::string waiting_;    // empty: none
  bool sent_ = false;      // a request is under way
  bool accepted_ = false;  // a report, at any time
  bool recreated_ = false;
  MonotonicTime not_before_{};
  kubernetes::Backoff backoff_;
  std::string problem_;
};

}  // namespace forestall::cluster
