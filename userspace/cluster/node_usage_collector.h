// SPDX-License-Identifier: Apache-2.0
// The use of each node by metrics.k8s.io, smoothed as the descheduler's collector does: every
// kInterval a sample moves the mean. A state machine without I/O.
//
// As there, a failed round changes no mean, and the mean of a node that has no metrics any more
// stays. Otherwise than there, a round is one list and not a request for each node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/request_source.h"
#include "rebalance/amounts.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

class NodeUsageCollector final : public RequestSource {
 public:
  // From the begin of a round to that of the next.
  static constexpr Duration kInterval = std::chrono::seconds(5);
  static constexpr Duration kLongest = std::chrono::seconds(30);
  static constexpr std::size_t kAnswerBytesMax = std::size_t{64} << 20;

  // Collects while `leads`, and begins anew afterwards, as the descheduler, which then starts anew.
  explicit NodeUsageCollector(std::function<bool()> leads) : leads_(std::move(leads)) {}

  // Whether a round is over since it leads, in whatever way.
  [[nodiscard]] bool has_synced() const { return synced_; }
  // Why the last round changed no mean; empty: it did.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // The leadership is lost: means of before do not count in a later one. next() and answered() find
  // it themselves, if the leadership is not regained before.
  void reset();
  // In place of the samples that the snapshot has: one of each node, its mean.
  void add_to(rebalance::Snapshot& snapshot) const;

  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;

 private:
  [[nodiscard]] Result<void> add_round(std::string_view body);

  const std::function<bool()> leads_;
  std::map<std::string, rebalance::Amounts, std::less<>> means_;  // by node
  bool synced_ = false;
  bool sent_ = false;
  std::optional<MonotonicTime> next_round_;  // nothing: at once
  std::uint64_t run_ = 0;                    // answers of earlier runs are void
  std::string problem_;
};

}  // namespace forestall::cluster
