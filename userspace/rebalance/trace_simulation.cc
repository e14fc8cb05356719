// SPDX-License-Identifier: Apache-2.0
#include "rebalance/trace_simulation.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

#include "rebalance/rebalance.h"

namespace forestall::rebalance {
namespace {

constexpr std::int64_t kMinuteSeconds = 60;

// More reports than the policy compares are not needed.
std::uint64_t compared_reports(const Policy& policy) {
  std::uint64_t most = 0;
  for (const Profile& profile : policy.profiles) {
    for (const auto* const plugins : {&profile.deschedule, &profile.balance}) {
      for (const ProfilePlugin& each : *plugins) {
        const auto* const args = std::get_if<NodePressureArgs>(&each.args);
        if (args != nullptr) most = std::max(most, args->consecutive_reports);
      }
    }
  }
  return most;
}

bool is_before(const NodeReport& a, const NodeReport& b) {
  return std::tie(a.node, a.time_ns) < std::tie(b.node, b.time_ns);
}

bool is_same(const NodeReport& a, const NodeReport& b) {
  return a.node == b.node && a.time_ns == b.time_ns;
}

struct NodeMemory {
  std::optional<Nanos> used;
  std::optional<Nanos> reported_capacity;
};

// The last sample of each node, else its last report.
std::unordered_map<std::string_view, NodeMemory> memory_of_nodes(const Snapshot& state) {
  std::unordered_map<std::string_view, NodeMemory> nodes;
  for (const NodeReport& each : state.reports) {
    nodes[each.node] = {.used = each.working_set, .reported_capacity = each.capacity};
  }
  for (const MetricsSample& each : state.node_metrics) {
    const Amount* const memory = each.usage.find(kMemory);
    if (memory != nullptr) nodes[each.name].used = memory->nanos;
  }
  return nodes;
}

bool is_of_daemon_set(const ClusterPod& pod) {
  return std::ranges::any_of(pod.owners,
                             [](const PodOwner& each) { return each.kind == "DaemonSet"; });
}

}  // namespace

TraceSimulation::TraceSimulation(const TracePlayOptions& options, std::string name,
                                 const Policy* policy)
    : options_(options) {
  run_.name = std::move(name);
  now_.evictions.reset();
  now_.kills.reset();
  if (policy == nullptr) return;
  policy_ = *policy;
  reports_kept_ = compared_reports(*policy);
  if (options.placeholders && !policy_->placeholder) policy_->placeholder.emplace();
}

void TraceSimulation::play(const Snapshot& recorded) {
  const std::int64_t now_ns = recorded.taken_ns;
  if (start_ns_) add_minutes(now_ns);
  if (!start_ns_) start_ns_ = now_ns;
  last_ns_ = now_ns;
  Snapshot state = moved(recorded);
  if (overlay_.waiting() > 0) {
    place_waiting(state, {});
    state = moved(recorded);
  }
  const HotNodes hot = count_hot(state);
  now_.seconds = (now_ns - *start_ns_) / kNanosPerUnit;
  now_.hot_nodes = hot.hot;
  now_.unknown_nodes = hot.unknown;
  hot_known_ = hot_known_ || hot.hot.has_value();
  if (policy_) join_reports(state);
  if (policy_ && is_due(now_ns)) {
    planned_ns_ = now_ns;
    apply_policy(state);
    // With the moves: a node that was not hot before may be.
    const HotNodes after = count_hot(moved(recorded));
    if (hot.hot && after.hot && *after.hot > *hot.hot) ++run_.plans_with_more_hot_nodes;
  }
  now_.waiting = overlay_.waiting();
  run_.points.push_back(now_);
}

SimulationRun TraceSimulation::take() && {
  run_.hot_node_minutes.reset();
  if (hot_known_) run_.hot_node_minutes = hot_seconds_ / kMinuteSeconds;
  run_.unknown_node_minutes = unknown_seconds_ / kMinuteSeconds;
  return std::move(run_);
}

Snapshot TraceSimulation::moved(const Snapshot& recorded) {
  Snapshot state = recorded;
  overlay_.apply(state);
  return state;
}

TraceSimulation::HotNodes TraceSimulation::count_hot(const Snapshot& state) const {
  const auto memory = memory_of_nodes(state);
  HotNodes count{.hot = 0};
  for (const Node& each : state.nodes) {
    const auto found = memory.find(each.name);
    Nanos capacity = each.capacity.of(kMemory);
    if (capacity <= 0) capacity = each.allocatable.of(kMemory);
    if (capacity <= 0 && found != memory.end()) {
      capacity = found->second.reported_capacity.value_or(0);
    }
    if (found == memory.end() || !found->second.used || capacity <= 0 ||
        overlay_.is_unknown(each.name)) {
      ++count.unknown;
      continue;
    }
    const double available = to_double(capacity) - to_double(*found->second.used);
    if (available < kHotShare * to_double(capacity)) ++*count.hot;
  }
  if (count.unknown == state.nodes.size()) count.hot.reset();
  return count;
}

// From the last state, whose counts hold until the next one.
void TraceSimulation::add_minutes(std::int64_t until_ns) {
  const auto seconds = static_cast<std::uint64_t>((until_ns - last_ns_) / kNanosPerUnit);
  hot_seconds_ += now_.hot_nodes.value_or(0) * seconds;
  unknown_seconds_ += now_.unknown_nodes * seconds;
}

void TraceSimulation::join_reports(Snapshot& state) {
  if (reports_kept_ == 0) return;
  const std::vector<NodeReport> earlier = reports_;
  for (const NodeReport& each : state.reports) {
    NodeReport& kept = reports_.emplace_back(each);
    kept.node = report_texts_.keep(each.node);
    kept.pods.clear();  // read of the newest report only
    for (ReportedThreshold& threshold : kept.thresholds) {
      threshold.signal = report_texts_.keep(threshold.signal);
    }
  }
  // Of a report that two states have, the first one stays.
  std::ranges::stable_sort(reports_, is_before);
  const auto repeated = std::ranges::unique(reports_, is_same);
  reports_.erase(repeated.begin(), repeated.end());
  std::vector<NodeReport> newest;
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    const std::size_t next = i + reports_kept_;
    if (next < reports_.size() && reports_[next].node == reports_[i].node) continue;
    newest.push_back(std::move(reports_[i]));
  }
  reports_ = std::move(newest);
  state.reports.insert(state.reports.begin(), earlier.begin(), earlier.end());
  std::ranges::stable_sort(state.reports, is_before);
}

bool TraceSimulation::is_due(std::int64_t now_ns) const {
  if (!planned_ns_) return true;
  const auto interval = static_cast<std::int64_t>(options_.interval_seconds) * kNanosPerUnit;
  return now_ns - *planned_ns_ >= interval;
}

void TraceSimulation::apply_policy(const Snapshot& state) {
  RebalancePlan plan = rebalance(*policy_, state, history_);
  if (run_.error.empty()) run_.error = first_error(plan);
  Snapshot placed = state;
  std::vector<LeavingRequest> leaving;
  for (const PodEviction& each : plan.evictions) {
    if (!each.refused.empty()) {
      ++run_.refused;
      continue;
    }
    const ClusterPod& pod = state.pods[each.pod];
    std::string_view node;
    if (is_of_daemon_set(pod)) node = pod.node;
    if (policy_->placeholder && each.destination) node = state.nodes[*each.destination].name;
    const auto before = overlay_.move(pod, node, state.taken_ns);
    ++now_.moves;
    if (before && state.taken_ns - *before < kLoopSeconds * kNanosPerUnit) ++now_.loops;
    placed.pods[each.pod].node = node;
    if (is_live(pod)) leaving.push_back({pod.node, pod.request});
  }
  if (plan.history) history_ = std::move(*plan.history);
  if (overlay_.waiting() > 0) place_waiting(placed, leaving);
}

void TraceSimulation::place_waiting(const Snapshot& state,
                                    const std::vector<LeavingRequest>& leaving) {
  std::vector<PodIndex> waiting;
  for (PodIndex i = 0; i < state.pods.size(); ++i) {
    if (overlay_.waits(state.pods[i])) waiting.push_back(i);
  }
  const auto places = place_pods(state, waiting, leaving);
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (places[i]) overlay_.place(state.pods[waiting[i]], state.nodes[*places[i]].name);
  }
}

}  // namespace forestall::rebalance
