// SPDX-License-Identifier: Apache-2.0
#include "cluster/report_history.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace forestall::cluster {
namespace {

// A smaller pool is not replaced.
constexpr std::size_t kTextsMin = std::size_t{1} << 20;

// The report, with its texts in `pool`.
rebalance::NodeReport copy_into(rebalance::StringPool& pool, rebalance::NodeReport report) {
  static_assert(sizeof report == 240, "copy the texts of new members, too");
  report.node = pool.keep(report.node);
  for (rebalance::ReportedThreshold& each : report.thresholds) {
    each.signal = pool.keep(each.signal);
  }
  for (rebalance::ReportedPod& each : report.pods) {
    each.pod_namespace = pool.keep(each.pod_namespace);
    each.name = pool.keep(each.name);
    each.uid = pool.keep(each.uid);
  }
  return report;
}

}  // namespace

void ReportHistory::fence() {
  fenced_ = true;
  listed_ = false;
  fences_.clear();
}

void ReportHistory::add(const rebalance::Snapshot& list, MonotonicTime now) {
  if (std::exchange(fenced_, false)) {
    for (const rebalance::NodeReport& each : list.reports) {
      fences_.insert_or_assign(std::string(each.node), each.time_ns);
    }
  }
  listed_ = true;
  std::set<std::string_view> present;
  for (const rebalance::NodeReport& each : list.reports) {
    present.insert(each.node);
    keep(each, now);
  }
  for (auto& [name, kept] : nodes_) {
    std::erase_if(kept, [&](const Kept& each) { return now - each.seen > longest_; });
  }
  std::erase_if(nodes_, [&](const auto& node) {
    return node.second.empty() || !present.contains(node.first);
  });
  drop_unused_texts();
}

void ReportHistory::keep(const rebalance::NodeReport& report, MonotonicTime now) {
  auto node = nodes_.find(report.node);
  if (node == nodes_.end()) node = nodes_.try_emplace(std::string(report.node)).first;
  std::deque<Kept>& kept = node->second;
  const auto same = std::ranges::find_if(
      kept, [&](const Kept& each) { return each.report.time_ns == report.time_ns; });
  if (same != kept.end()) {
    same->seen = now;
    return;
  }
  kept.push_back({copy_into(*texts_, report), now});
  if (kept.size() > per_node_) kept.pop_front();
}

void ReportHistory::add_to(rebalance::Snapshot& snapshot) const {
  // A list has one report of a node: its newest.
  std::map<std::string_view, std::int64_t> newest;
  for (const rebalance::NodeReport& each : snapshot.reports) newest[each.node] = each.time_ns;
  for (const auto& [name, time] : newest) {
    const auto node = nodes_.find(name);
    if (node == nodes_.end()) continue;
    for (const Kept& each : node->second) {
      if (each.report.time_ns <= time) snapshot.reports.push_back(each.report);
    }
  }
  rebalance::sort(snapshot);
  const auto same = std::ranges::unique(
      snapshot.reports, [](const rebalance::NodeReport& a, const rebalance::NodeReport& b) {
        return a.node == b.node && a.time_ns == b.time_ns;
      });
  snapshot.reports.erase(same.begin(), same.end());
  drop_fenced(snapshot);
}

bool ReportHistory::has_series(std::size_t reports) const {
  const std::size_t needed = std::min(reports, per_node_);
  return listed_ && !nodes_.empty() && std::ranges::all_of(nodes_, [&](const auto& node) {
           const std::deque<Kept>& kept = node.second;
           return kept.size() >= needed && !is_fenced(kept.back().report);
         });
}

// Whether the node may have written this report before the fence. Later ones have another time,
// also an earlier one if the node's clock was set back.
bool ReportHistory::is_fenced(const rebalance::NodeReport& newest) const {
  if (fenced_) return true;
  const auto found = fences_.find(newest.node);
  return found != fences_.end() && newest.time_ns == found->second;
}

void ReportHistory::drop_fenced(rebalance::Snapshot& snapshot) const {
  std::set<std::string_view> fenced;
  // They are sorted: the last one of a node is its newest.
  for (const rebalance::NodeReport& each : snapshot.reports) {
    if (is_fenced(each)) {
      fenced.insert(each.node);
    } else {
      fenced.erase(each.node);
    }
  }
  std::erase_if(snapshot.reports,
                [&](const rebalance::NodeReport& each) { return fenced.contains(each.node); });
}

void ReportHistory::drop_unused_texts() {
  if (texts_->bytes() < std::max(kTextsMin, 2 * used_bytes_)) return;
  const auto pool = std::make_shared<rebalance::StringPool>();
  for (auto& [name, kept] : nodes_) {
    for (Kept& each : kept) each.report = copy_into(*pool, std::move(each.report));
  }
  texts_ = pool;
  used_bytes_ = pool->bytes();
}

}  // namespace forestall::cluster
