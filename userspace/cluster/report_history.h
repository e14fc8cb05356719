// SPDX-License-Identifier: Apache-2.0
// The last NodeReports of each node: NodePressure compares several, and a list has only the newest
// one.
//
// It counts reports, not lists: two lists may have the same report of a node, because both sides
// count 30 s by their own clocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

class ReportHistory {
 public:
  using Texts = std::vector<std::shared_ptr<rebalance::StringPool>>;

  // `per_node`: reports of one node. Reports that no list had for `longest` are dropped: each one
  // keeps the texts of its list.
  ReportHistory(std::size_t per_node, Duration longest) : per_node_(per_node), longest_(longest) {}

  // Nodes that are not in the list are forgotten.
  void add(const rebalance::Snapshot& list, MonotonicTime now);
  // All reports, sorted and each once; `snapshot` may have some of them.
  void add_to(rebalance::Snapshot& snapshot) const;
  // That add_to() uses besides those of `snapshot`.
  [[nodiscard]] Texts texts() const;

 private:
  struct Kept {
    rebalance::NodeReport report;
    std::shared_ptr<rebalance::StringPool> texts;
    MonotonicTime seen{};  // in a list, last
  };

  void keep(const rebalance::NodeReport& report, const rebalance::Snapshot& list,
            MonotonicTime now);

  const std::size_t per_node_;
  const Duration longest_;
  std::map<std::string, std::deque<Kept>, std::less<>> nodes_;
};

}  // namespace forestall::cluster
