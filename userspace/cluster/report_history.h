// SPDX-License-Identifier: Apache-2.0
// The last NodeReports of each node: NodePressure compares several, and a list has only the newest
// one.
//
// It counts reports, not lists: two lists may have the same report of a node, because both sides
// count 30 s by their own clocks.
//
// The reports of a node may still have pods that another process moved, which is not in the history
// of this one. So after fence() a node has no reports until it wrote another one. Then those of
// before are of use again, as earlier ones of a series. No times of two hosts are compared.
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

  // Another process may have moved pods until now. REQUIRES: the list of the next add() is
  // requested later.
  void fence();
  // Nodes that are not in the list are forgotten.
  void add(const rebalance::Snapshot& list, MonotonicTime now);
  // Adds the earlier reports of the nodes of which `snapshot` has one; all are sorted then, each
  // once. A node without a report in the plan's own list has none: it was deleted, or the list
  // failed. A report with a later time than the listed one is left out: the node's clock was set
  // back, or the report was forged and the node has replaced it. After fence() nodes without a
  // later report have none either.
  void add_to(rebalance::Snapshot& snapshot) const;
  // Whether there was a list with reports, since fence(), and each node of it has `reports`, the
  // last one written after fence(). As many as are kept of a node are enough. An empty list may be
  // of agents that have just started.
  [[nodiscard]] bool has_series(std::size_t reports) const;
  // That add_to() uses besides those of `snapshot`.
  [[nodiscard]] const std::shared_ptr<rebalance::StringPool>& texts() const { return texts_; }

 private:
  struct Kept {
    rebalance::NodeReport report;  // with its texts in texts_
    MonotonicTime seen{};          // in a list, last
  };

  void keep(const rebalance::NodeReport& report, MonotonicTime now);
  void drop_unused_texts();
  [[nodiscard]] bool is_fenced(const rebalance::NodeReport& newest) const;
  void drop_fenced(rebalance::Snapshot& snapshot) const;

  const std::size_t per_node_;
  const Duration longest_;
  std::map<std::string, std::deque<Kept>, std::less<>> nodes_;
  bool fenced_ = false;  // no list was added since
  bool listed_ = false;  // a list was added, since the fence
  // By node: the time of its report in the first list after fence().
  std::map<std::string, std::int64_t, std::less<>> fences_;
  // A plan may use it longer than this object. Replaced when most of it is of dropped reports.
  std::shared_ptr<rebalance::StringPool> texts_ = std::make_shared<rebalance::StringPool>();
  std::size_t used_bytes_ = 0;  // of texts_, when it was made
};

}  // namespace forestall::cluster
