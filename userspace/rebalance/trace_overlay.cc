// SPDX-License-Identifier: Apache-2.0
#include "rebalance/trace_overlay.h"

#include <algorithm>
#include <utility>

#include "rebalance/usage_shift.h"

namespace forestall::rebalance {
namespace {

// No UID of the API server has it.
constexpr char kReplacement = '~';

// Of the recorded pod and of its replacements.
std::string trace_key(const ClusterPod& pod) {
  if (!pod.uid.empty()) return std::string(pod.uid.substr(0, pod.uid.find(kReplacement)));
  return std::string(pod.pod_namespace) + "/" + std::string(pod.name);
}

void subtract_restarts(std::vector<ContainerState>& containers,
                       const std::vector<std::int32_t>& before) {
  for (std::size_t i = 0; i < std::min(containers.size(), before.size()); ++i) {
    containers[i].restarts = std::max(containers[i].restarts - before[i], 0);
  }
}

void add_restarts(std::vector<std::int32_t>& before,
                  const std::vector<ContainerState>& containers) {
  before.resize(std::max(before.size(), containers.size()));
  for (std::size_t i = 0; i < containers.size(); ++i) before[i] += containers[i].restarts;
}

bool is_replaced(const ClusterPod& pod) {
  return is_live(pod) && !pod.owners.empty();
}

}  // namespace

void TraceOverlay::replace(ClusterPod& pod, const MovedPod& moved, StringPool& texts) {
  if (!pod.uid.empty()) {
    pod.uid = texts.keep(std::string(pod.uid) + kReplacement + std::to_string(moved.moves));
  }
  pod.node = texts.keep(moved.node);
  pod.created_ns = moved.moved_ns;
  pod.started_ns = moved.moved_ns;
  subtract_restarts(pod.containers, moved.restarts);
  subtract_restarts(pod.init_containers, moved.init_restarts);
  if (!moved.node.empty()) return;
  pod.started_ns.reset();
  pod.phase = PodPhase::pending;
  pod.phase_text = texts.keep("Pending");
  pod.containers.clear();
  pod.init_containers.clear();
  pod.conditions.clear();
}

void TraceOverlay::apply(Snapshot& state) {
  unknown_.clear();
  if (moved_.empty()) return;
  std::unordered_set<std::string_view> nodes;
  for (const Node& each : state.nodes) nodes.insert(each.name);
  for (auto& [key, each] : moved_) each.seen = false;
  std::vector<UsageShift> shifts;
  std::vector<bool> gone(state.pods.size());
  for (std::size_t i = 0; i < state.pods.size(); ++i) {
    ClusterPod& pod = state.pods[i];
    const auto found = moved_.find(trace_key(pod));
    if (found == moved_.end() || (!is_live(pod) && !found->second.gone)) continue;
    MovedPod& moved = found->second;
    moved.seen = true;
    gone[i] = moved.gone;
    if (!nodes.contains(moved.node)) moved.node.clear();  // the node left the cluster
    UsageShift shift{.pod_namespace = pod.pod_namespace,
                     .pod = pod.name,
                     .uid = pod.uid,
                     .new_uid = pod.uid,
                     .from = pod.node,
                     .to = "",
                     .request = &pod.request};
    const bool had_usage = is_live(pod);
    if (!moved.gone) {
      replace(pod, moved, *state.texts);
      shift.new_uid = pod.uid;
      shift.to = pod.node;
    }
    if (had_usage) shifts.push_back(shift);
  }
  std::erase_if(moved_, [](const auto& each) { return !each.second.seen; });
  shift_usage(state, shifts, unknown_);
  std::size_t index = 0;
  std::erase_if(state.pods, [&](const ClusterPod&) { return gone[index++]; });
}

std::optional<std::int64_t> TraceOverlay::move(const ClusterPod& pod, std::string_view node,
                                               std::int64_t now_ns) {
  MovedPod& moved = moved_[trace_key(pod)];
  std::optional<std::int64_t> before;
  if (moved.moves > 0) before = moved.moved_ns;
  moved.moved_ns = now_ns;
  ++moved.moves;
  moved.gone = !is_replaced(pod);
  moved.node = node;
  add_restarts(moved.restarts, pod.containers);
  add_restarts(moved.init_restarts, pod.init_containers);
  return before;
}

void TraceOverlay::place(const ClusterPod& pod, std::string_view node) {
  moved_.at(trace_key(pod)).node = node;
}

bool TraceOverlay::waits(const ClusterPod& pod) const {
  const auto found = moved_.find(trace_key(pod));
  return found != moved_.end() && !found->second.gone && found->second.node.empty();
}

std::uint64_t TraceOverlay::waiting() const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      moved_, [](const auto& each) { return !each.second.gone && each.second.node.empty(); }));
}

}  // namespace forestall::rebalance
