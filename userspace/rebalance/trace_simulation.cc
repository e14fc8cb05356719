// SPDX-License-Identifier: Apache-2.0
#include "rebalance/trace_simulation.h"

#include <algorithm>
#include <string_view>
#include <tuple>
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

double minutes_of(Nanos node_time) {
  return to_double(node_time) / static_cast<double>(kMinuteSeconds * kNanosPerUnit);
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
  nodes_ = heat_of_nodes(state, overlay_);
  const HotCount count = count_hot(nodes_);
  now_.seconds = (now_ns - *start_ns_) / kNanosPerUnit;
  now_.hot_nodes = count.hot;
  now_.unknown_nodes = count.unknown;
  hot_known_ = hot_known_ || count.hot.has_value();
  if (policy_) join_reports(state);
  if (policy_ && is_due(now_ns)) {
    planned_ns_ = now_ns;
    apply_policy(state);
    judge_plan(moved(recorded));
  }
  now_.waiting = overlay_.waiting();
  run_.points.push_back(now_);
}

void TraceSimulation::compare(const std::vector<bool>& measured) {
  std::uint64_t hot = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (measured[i] && nodes_[i] == NodeHeat::hot) ++hot;
  }
  now_.compared_nodes = static_cast<std::uint64_t>(std::ranges::count(measured, true));
  now_.compared_hot_nodes.reset();
  if (now_.compared_nodes > 0) now_.compared_hot_nodes = hot;
  run_.points.back() = now_;
}

SimulationRun TraceSimulation::take() && {
  run_.hot_node_minutes.reset();
  if (hot_known_) run_.hot_node_minutes = minutes_of(hot_time_);
  run_.unknown_node_minutes = minutes_of(unknown_time_);
  if (compared_time_ > 0) run_.compared_hot_node_minutes = minutes_of(compared_hot_time_);
  run_.compared_node_minutes = minutes_of(compared_time_);
  return std::move(run_);
}

Snapshot TraceSimulation::moved(const Snapshot& recorded) {
  Snapshot state = recorded;
  overlay_.apply(state);
  return state;
}

// From the last state, whose counts hold until the next one.
void TraceSimulation::add_minutes(std::int64_t until_ns) {
  const Nanos time = Nanos{until_ns} - last_ns_;
  hot_time_ += static_cast<Nanos>(now_.hot_nodes.value_or(0)) * time;
  unknown_time_ += static_cast<Nanos>(now_.unknown_nodes) * time;
  compared_time_ += static_cast<Nanos>(now_.compared_nodes) * time;
  compared_hot_time_ += static_cast<Nanos>(now_.compared_hot_nodes.value_or(0)) * time;
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
  if (interval == 0) return true;
  return now_ns - *planned_ns_ + options_.usual_gap_ns / 2 >= interval;
}

void TraceSimulation::apply_policy(const Snapshot& state) {
  received_.clear();
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
    if (node != pod.node) received_.emplace(node);
    if (is_live(pod)) leaving.push_back({pod.node, pod.request});
  }
  if (plan.history) history_ = std::move(*plan.history);
  if (overlay_.waiting() > 0) place_waiting(placed, leaving);
}

// A plan that makes a node unknown, or moves a pod to an unknown one, may have made it hot.
void TraceSimulation::judge_plan(const Snapshot& state) {
  if (!run_.plans_with_more_hot_nodes) return;
  const std::vector<NodeHeat> after = heat_of_nodes(state, overlay_);
  std::int64_t more = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const bool received = received_.contains(std::string(state.nodes[i].name));
    if (after[i] == NodeHeat::unknown && (nodes_[i] != NodeHeat::unknown || received)) {
      run_.plans_with_more_hot_nodes.reset();
      return;
    }
    // A node of which an unmeasured pod left again is measured only now.
    if (nodes_[i] == NodeHeat::unknown) continue;
    more += (after[i] == NodeHeat::hot ? 1 : 0) - (nodes_[i] == NodeHeat::hot ? 1 : 0);
  }
  if (more > 0) ++*run_.plans_with_more_hot_nodes;
}

void TraceSimulation::place_waiting(const Snapshot& state,
                                    const std::vector<LeavingRequest>& leaving) {
  std::vector<PodIndex> waiting;
  for (PodIndex i = 0; i < state.pods.size(); ++i) {
    if (overlay_.waits(state.pods[i])) waiting.push_back(i);
  }
  const auto places = place_pods(state, waiting, leaving);
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (!places[i]) continue;
    const std::string_view node = state.nodes[*places[i]].name;
    overlay_.place(state.pods[waiting[i]], node);
    received_.emplace(node);
  }
}

void compare_runs(std::deque<TraceSimulation>& runs) {
  if (runs.empty()) return;
  std::vector<bool> measured(runs.front().nodes().size(), true);
  for (const TraceSimulation& run : runs) {
    for (std::size_t i = 0; i < measured.size(); ++i) {
      if (run.nodes()[i] == NodeHeat::unknown) measured[i] = false;
    }
  }
  for (TraceSimulation& each : runs) each.compare(measured);
}

}  // namespace forestall::rebalance
