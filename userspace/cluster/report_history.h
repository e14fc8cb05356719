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
  // `per_node`: reports of one node. Reports that no list had for `longest` are dropped.
  ReportHistory(std::size_t per_node, Duration longest) : per_node_(per_node), longest_(longest) {}

  // Nodes that are not in the list are forgotten.
  void add(const rebalance::Snapshot& list, MonotonicTime now);
  // All reports, sorted and each once; `snapshot` may have some of them.
  void add_to(rebalance::Snapshot& snapshot) const;
  // That add_to() uses besides those of `snapshot`.
  [[nodiscard]] const std::shared_ptr<rebalance::StringPool>& texts() const { return texts_; }

 private:
  struct Kept {
    rebalance::NodeReport report;  // with its texts in texts_
    MonotonicTime seen{};          // in a list, last
  };

  void keep(const rebalance::NodeReport& report, MonotonicTime now);
  void drop_unused_texts();

  const std::size_t per_node_;
  const Duration longest_;
  std::map<std::string, std::deque<Kept>, std::less<>> nodes_;
  // A plan may use it longer than this object. Replaced when most of it is of dropped reports.
  std::shared_ptr<rebalance::StringPool> texts_ = std::make_shared<rebalance::StringPool>();
  std::size_t used_bytes_ = 0;  // of texts_, when it was made
};

}  // namespace forestall::cluster
