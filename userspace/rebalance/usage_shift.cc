// SPDX-License-Identifier: Apache-2.0
#include "rebalance/usage_shift.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "rebalance/usage.h"

namespace forestall::rebalance {
namespace {

constexpr std::string_view kMemorySignals = "memory.";

// What a pod uses, as far as it is measured.
struct MeasuredUse {
  std::optional<Nanos> cpu;
  std::optional<Nanos> memory;
  std::optional<Nanos> growth;
};

void add_clamped(std::optional<Nanos>& to, Nanos change) {
  if (to) *to = std::max<Nanos>(*to + change, 0);
}

void add_clamped(Amounts& to, std::string_view resource, Nanos change) {
  if (to.find(resource) == nullptr) return;
  Nanos& amount = to.at(resource);
  amount = std::max<Nanos>(amount + change, 0);
}

// `sign`: -1 of a node that the pod leaves, 1 of its new one.
void change_report(NodeReport& report, Nanos memory, Nanos growth, int sign) {
  add_clamped(report.usage, sign * memory);
  add_clamped(report.working_set, sign * memory);
  for (ReportedThreshold& each : report.thresholds) {
    if (!each.signal.starts_with(kMemorySignals)) continue;
    each.headroom -= sign * memory;
    if (each.growth) *each.growth += sign * growth;
    if (!each.growth) continue;
    each.seconds.reset();
    if (each.headroom > 0 && *each.growth > 0) {
      each.seconds = to_double(each.headroom) / to_double(*each.growth);
    }
  }
}

class UsageShifter {
 public:
  UsageShifter(Snapshot& state, const std::vector<UsageShift>& shifts) : state_(state) {
    for (const UsageShift& each : shifts) {
      nodes_.try_emplace(each.from);
      nodes_.try_emplace(each.to);
      samples_.try_emplace({each.pod_namespace, each.pod}, nullptr);
    }
    for (const MetricsSample& each : state.pod_metrics) {
      const auto wanted = samples_.find({each.pod_namespace, each.name});
      if (wanted != samples_.end()) wanted->second = &each;
    }
    for (MetricsSample& each : state.node_metrics) {
      const auto wanted = nodes_.find(each.name);
      if (wanted != nodes_.end()) wanted->second.samples.push_back(&each);
    }
    for (NodeReport& each : state.reports) {
      const auto wanted = nodes_.find(each.node);
      if (wanted != nodes_.end()) wanted->second.reports.push_back(&each);
    }
    for (std::size_t i = 0; i < state.nodes.size(); ++i) {
      const auto wanted = nodes_.find(state.nodes[i].name);
      if (wanted != nodes_.end()) wanted->second.node = &state.nodes[i];
    }
  }

  void shift(const UsageShift& shift, std::unordered_set<std::string>& unknown) {
    MeasuredUse use = use_of(shift);
    move_report_entries(shift, use);
    if (shift.from == shift.to) return;
    if (!use.memory) {
      unknown.emplace(shift.from);
      if (!shift.to.empty()) unknown.emplace(shift.to);
    }
    leave(nodes_.at(shift.from), use);
    if (!shift.to.empty()) arrive(nodes_.at(shift.to), use, *shift.request);
  }

 private:
  // Of one node.
  struct Measurements {
    const Node* node = nullptr;
    std::vector<MetricsSample*> samples;
    std::vector<NodeReport*> reports;  // by time
  };

  [[nodiscard]] MeasuredUse use_of(const UsageShift& shift) const {
    MeasuredUse use;
    const MetricsSample* const sample = samples_.at({shift.pod_namespace, shift.pod});
    if (sample == nullptr || !is_current(*sample, state_.taken_ns)) return use;
    use.cpu = measured(*sample, kCpu);
    use.memory = measured(*sample, kMemory);
    return use;
  }

  // Reports list a pod with its node. The newest one has its growth, and its memory if no sample
  // has.
  void move_report_entries(const UsageShift& shift, MeasuredUse& use) {
    std::optional<ReportedPod> newest;
    for (NodeReport* const report : nodes_.at(shift.from).reports) {
      std::vector<ReportedPod>& listed = report->pods;
      const auto found = std::ranges::find_if(listed, [&](const ReportedPod& each) {
        return each.uid.empty() ? std::tie(each.pod_namespace, each.name) ==
                                      std::tie(shift.pod_namespace, shift.pod)
                                : each.uid == shift.uid;
      });
      if (found == listed.end()) continue;
      if (is_current(report->time_ns, state_.taken_ns)) newest = *found;
      listed.erase(found);
    }
    if (!newest) return;
    if (!use.memory) use.memory = newest->working_set;
    use.growth = newest->growth;
    if (!newest->uid.empty()) newest->uid = shift.new_uid;
    if (shift.to.empty()) return;
    for (NodeReport* const report : nodes_.at(shift.to).reports) report->pods.push_back(*newest);
  }

  void leave(Measurements& node, const MeasuredUse& use) {
    for (MetricsSample* const each : node.samples) {
      if (use.cpu) add_clamped(each->usage, kCpu, -*use.cpu);
      if (use.memory) add_clamped(each->usage, kMemory, -*use.memory);
    }
    for (NodeReport* const each : node.reports) {
      if (use.memory) change_report(*each, *use.memory, use.growth.value_or(0), -1);
      // Without the pod the tasks would have stalled less; how much less is unknown.
      each->some.reset();
      each->full.reset();
    }
    change_shares(node.node, use.cpu.value_or(0), use.memory.value_or(0), -1);
  }

  void arrive(Measurements& node, const MeasuredUse& use, const Amounts& request) {
    const Nanos cpu = use.cpu.value_or(request.of(kCpu));
    const Nanos memory = use.memory.value_or(request.of(kMemory));
    for (MetricsSample* const each : node.samples) {
      add_clamped(each->usage, kCpu, cpu);
      add_clamped(each->usage, kMemory, memory);
    }
    for (NodeReport* const each : node.reports) {
      change_report(*each, memory, use.growth.value_or(0), 1);
    }
    change_shares(node.node, cpu, memory, 1);
  }

  // Prometheus does not name pods. `sign` as in change_report().
  void change_shares(const Node* node, Nanos cpu, Nanos memory, int sign) {
    if (node == nullptr) return;
    constexpr double kWhole = 100;
    const double change =
        to_double(share_on(*node, cpu, memory)) / static_cast<double>(kNanosPerUnit) / kWhole;
    for (PrometheusSample& each : state_.prometheus) {
      if (each.instance != node->name || !(each.value >= 0 && each.value <= 1)) continue;
      each.value = std::clamp(each.value + sign * change, 0.0, 1.0);
    }
  }

  struct PairHash {
    std::size_t operator()(const std::pair<std::string_view, std::string_view>& pair) const {
      const std::hash<std::string_view> hash;
      constexpr std::size_t kFactor = 31;
      return hash(pair.first) * kFactor + hash(pair.second);
    }
  };

  Snapshot& state_;
  std::unordered_map<std::string_view, Measurements> nodes_;  // by node
  // The last ones, by namespace and name of the pod.
  std::unordered_map<std::pair<std::string_view, std::string_view>, const MetricsSample*, PairHash>
      samples_;
};

}  // namespace

void shift_usage(Snapshot& state, const std::vector<UsageShift>& shifts,
                 std::unordered_set<std::string>& unknown) {
  if (shifts.empty()) return;
  UsageShifter shifter(state, shifts);
  for (const UsageShift& each : shifts) shifter.shift(each, unknown);
}

}  // namespace forestall::rebalance
