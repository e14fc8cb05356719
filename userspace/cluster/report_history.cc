// SPDX-License-Identifier: Apache-2.0
#include "cluster/report_history.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace forestall::cluster {

void ReportHistory::add(const rebalance::Snapshot& list, MonotonicTime now) {
  std::set<std::string_view> present;
  for (const rebalance::NodeReport& each : list.reports) {
    present.insert(each.node);
    keep(each, list, now);
  }
  for (auto& [name, kept] : nodes_) {
    std::erase_if(kept, [&](const Kept& each) { return now - each.seen > longest_; });
  }
  std::erase_if(nodes_, [&](const auto& node) {
    return node.second.empty() || !present.contains(node.first);
  });
}

void ReportHistory::keep(const rebalance::NodeReport& report, const rebalance::Snapshot& list,
                         MonotonicTime now) {
  auto node = nodes_.find(report.node);
  if (node == nodes_.end()) node = nodes_.try_emplace(std::string(report.node)).first;
  std::deque<Kept>& kept = node->second;
  const auto same = std::ranges::find_if(
      kept, [&](const Kept& each) { return each.report.time_ns == report.time_ns; });
  if (same != kept.end()) {
    same->seen = now;
    return;
  }
  kept.push_back({report, list.texts, now});
  if (kept.size() > per_node_) kept.pop_front();
}

void ReportHistory::add_to(rebalance::Snapshot& snapshot) const {
  for (const auto& [name, kept] : nodes_) {
    for (const Kept& each : kept) snapshot.reports.push_back(each.report);
  }
  rebalance::sort(snapshot);
  const auto same = std::ranges::unique(
      snapshot.reports, [](const rebalance::NodeReport& a, const rebalance::NodeReport& b) {
        return a.node == b.node && a.time_ns == b.time_ns;
      });
  snapshot.reports.erase(same.begin(), same.end());
}

ReportHistory::Texts ReportHistory::texts() const {
  std::set<std::shared_ptr<rebalance::StringPool>> all;
  for (const auto& [name, kept] : nodes_) {
    for (const Kept& each : kept) all.insert(each.texts);
  }
  return {all.begin(), all.end()};
}

}  // namespace forestall::cluster
