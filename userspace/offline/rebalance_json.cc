// SPDX-License-Identifier: Apache-2.0
#include "offline/rebalance_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "intake/wall_time.h"
#include "model/pod.h"
#include "text/json_writer.h"

namespace forestall::cli {
namespace {

using rebalance::ConsideredPod;
using rebalance::PluginReport;
using text::JsonWriter;

template <typename Map>
void write_map(JsonWriter& out, std::string_view key, const Map& map) {
  out.key(key);
  out.begin_object();
  for (const auto& [name, number] : map) out.member(name, number);
  out.end_object();
}

void write_reasons(JsonWriter& out, const rebalance::Reasons& reasons) {
  out.key("reasons");
  out.begin_list();
  for (const std::string& each : reasons) out.value(each);
  out.end_list();
}

void write_verdict(JsonWriter& out, std::string_view key, const rebalance::Reasons& reasons) {
  out.key(key);
  out.begin_object();
  out.member("passed", reasons.empty());
  write_reasons(out, reasons);
  out.end_object();
}

class PlanWriter {
 public:
  PlanWriter(const rebalance::Snapshot& snapshot,
             const std::function<void(std::string_view)>& write)
      : snapshot_(snapshot), write_(write) {}

  void write(const rebalance::RebalancePlan& plan) && {
    for (const rebalance::ProfileRun& profile : plan.profiles) {
      for (const PluginReport& run : profile.plugins) find_destinations(profile.name, run);
    }
    out_.begin_object();
    write_corrections(plan.corrections);
    out_.key("profiles");
    out_.begin_list();
    for (const rebalance::ProfileRun& each : plan.profiles) write_profile(each);
    out_.end_list();
    write_evictions(plan.evictions);
    write_held_seats(plan.held_seats);
    if (plan.history) write_history(*plan.history);
    if (!plan.skipped.empty()) out_.member("skipped", plan.skipped);
    if (plan.fits_omitted) {
      out_.member("omitted", "fits of pods beyond the first 200,000 pairs of pods and nodes");
    }
    out_.end_object();
    write_(std::move(out_).take());
  }

 private:
  // After each part, of which a plan may have many.
  void pass_on() {
    constexpr std::size_t kPiece = std::size_t{1} << 16U;
    if (out_.written().size() < kPiece) return;
    write_(out_.written());
    out_.forget_written();
  }

  void write_history(const rebalance::PlanHistory& history) {
    out_.key("history");
    out_.begin_object();
    out_.key("moves");
    out_.begin_list();
    for (const rebalance::Move& each : history.moves) {
      out_.begin_object();
      out_.member("owner", each.owner);
      out_.member("node", each.node);
      out_.member("namespace", each.pod_namespace);
      out_.member("pod", each.pod);
      out_.member("time", intake::wall_time_text(each.time_ns));
      write_booking(each);
      write_existed(each);
      out_.end_object();
      pass_on();
    }
    out_.end_list();
    write_waiting(history.waiting);
    out_.end_object();
  }

  void write_waiting(const std::vector<rebalance::WaitingMove>& waiting) {
    if (waiting.empty()) return;
    out_.key("waiting");
    out_.begin_list();
    for (const rebalance::WaitingMove& each : waiting) {
      out_.begin_object();
      out_.member("profile", each.profile);
      out_.member("plugin", each.plugin);
      out_.member("workload", each.workload);
      out_.member("namespace", each.pod_namespace);
      out_.member("pod", each.pod);
      if (!each.node.empty()) out_.member("node", each.node);
      out_.member("limit", to_string(each.limit));
      out_.member("since", intake::wall_time_text(each.since_ns));
      out_.end_object();
      pass_on();
    }
    out_.end_list();
  }

  void write_held_seats(const std::vector<rebalance::HeldSeat>& seats) {
    if (seats.empty()) return;
    out_.key("heldSeats");
    out_.begin_list();
    for (const rebalance::HeldSeat& each : seats) {
      const rebalance::ClusterPod& pod = snapshot_.pods[each.pod];
      out_.begin_object();
      out_.member("namespace", pod.pod_namespace);
      out_.member("name", pod.name);
      out_.member("profile", each.profile);
      out_.member("plugin", each.plugin);
      out_.member("limit", to_string(each.limit));
      out_.member("waitedSeconds", each.waited_seconds);
      out_.end_object();
    }
    out_.end_list();
  }

  // In millicores and bytes.
  void write_booking(const rebalance::Move& move) {
    using rebalance::counted;
    if (move.destination.empty()) return;
    out_.member("destination", move.destination);
    out_.member("cpu", counted(rebalance::kCpu, move.cpu));
    out_.member("memory", counted(rebalance::kMemory, move.memory));
    out_.member("cpuUsage", counted(rebalance::kCpu, move.cpu_usage));
    out_.member("workingSet", counted(rebalance::kMemory, move.working_set));
    out_.member("growthPerSecond", counted(rebalance::kMemory, move.growth));
  }

  void write_existed(const rebalance::Move& move) {
    if (move.existed.empty()) return;
    out_.key("existed");
    out_.begin_list();
    for (const std::string& uid : move.existed) out_.value(uid);
    out_.end_list();
  }

  // By name, if there are any.
  void write_corrections(const rebalance::Corrections& corrections) {
    if (corrections.empty()) return;
    out_.key("corrections");
    out_.begin_list();
    for (const rebalance::CorrectionRow& each : rebalance::correction_table()) {
      if (corrections.has(each.correction)) out_.value(each.name);
    }
    out_.end_list();
  }

  // The node where room is booked; without that the first one that the pod fits.
  [[nodiscard]] std::optional<std::string_view> destination_of(const rebalance::PodEviction& each) {
    if (each.destination) return snapshot_.nodes[*each.destination].name;
    const auto found =
        destinations_.find(key_of(each.profile.view(), each.plugin.view(), each.pod));
    if (found == destinations_.end()) return std::nullopt;
    return found->second;
  }

  // The first node, by name, that the pod fits; of the utilization plugins one with room.
  void find_destinations(const std::string& profile, const PluginReport& run) {
    std::set<std::size_t> allowed;
    for (const rebalance::ClassifiedNode& each : run.nodes) {
      if (each.node_class == rebalance::NodeClass::underutilized ||
          each.node_class == rebalance::NodeClass::destination) {
        allowed.insert(each.node);
      }
    }
    for (const ConsideredPod& each : run.pods) {
      for (const rebalance::NodeFit& fit : each.fits) {
        const std::string_view node = snapshot_.nodes[fit.node].name;
        if (!fit.reason.empty() || node == snapshot_.pods[each.pod].node) continue;
        if (!run.nodes.empty() && !allowed.contains(fit.node)) continue;
        destinations_[key_of(profile, run.plugin, each.pod)] = node;
        break;
      }
    }
  }

  static std::string key_of(std::string_view profile, std::string_view plugin, std::size_t pod) {
    return fmt::format("{}/{}/{}", profile, plugin, pod);
  }

  void write_profile(const rebalance::ProfileRun& profile) {
    out_.begin_object();
    out_.member("name", profile.name);
    out_.key("plugins");
    out_.begin_list();
    for (const PluginReport& each : profile.plugins) write_plugin(each);
    out_.end_list();
    out_.end_object();
  }

  void write_plugin(const PluginReport& run) {
    out_.begin_object();
    out_.member("plugin", run.plugin);
    out_.member("extensionPoint", rebalance::to_string(run.point));
    out_.key("nodes");
    out_.begin_list();
    for (const rebalance::ClassifiedNode& each : run.nodes) write_node(each);
    out_.end_list();
    if (run.total_available) {
      write_map(out_, "totalAvailable", *run.total_available);
    } else {
      out_.key("totalAvailable");
      out_.null();
    }
    out_.key("pods");
    out_.begin_list();
    for (const ConsideredPod& each : run.pods) write_pod(each);
    out_.end_list();
    write_evictions(run.evictions);
    out_.key("limits");
    out_.begin_list();
    for (const std::string& each : run.limits) out_.value(each);
    out_.end_list();
    out_.key("error");
    if (run.error.empty()) {
      out_.null();
    } else {
      out_.value(run.error);
    }
    if (!run.outcome.empty()) out_.member("outcome", run.outcome);
    out_.end_object();
  }

  void write_node(const rebalance::ClassifiedNode& node) {
    out_.begin_object();
    out_.member("name", snapshot_.nodes[node.node].name);
    out_.member("class", rebalance::to_string(node.node_class));
    write_map(out_, "usage", node.usage);
    write_map(out_, "usagePercent", node.percent);
    write_map(out_, "thresholdPercent", node.threshold);
    write_map(out_, "targetPercent", node.target);
    if (!node.detail.empty()) out_.member("detail", node.detail);
    out_.end_object();
    pass_on();
  }

  void write_pod(const ConsideredPod& considered) {
    const rebalance::ClusterPod& pod = snapshot_.pods[considered.pod];
    out_.begin_object();
    out_.member("namespace", pod.pod_namespace);
    out_.member("name", pod.name);
    out_.member("node", pod.node);
    out_.member("qosClass", to_string(pod.qos));
    write_verdict(out_, "filter", considered.filter);
    write_verdict(out_, "preEvictionFilter", considered.pre_eviction);
    out_.key("fits");
    out_.begin_list();
    for (const rebalance::NodeFit& each : considered.fits) {
      out_.begin_object();
      out_.member("node", snapshot_.nodes[each.node].name);
      out_.member("fits", each.reason.empty());
      write_reasons(out_,
                    each.reason.empty() ? rebalance::Reasons() : rebalance::Reasons{each.reason});
      out_.end_object();
    }
    out_.end_list();
    out_.end_object();
    pass_on();
  }

  void write_evictions(const std::vector<rebalance::PodEviction>& evictions) {
    out_.key("evictions");
    out_.begin_list();
    for (const rebalance::PodEviction& each : evictions) {
      const rebalance::ClusterPod& pod = snapshot_.pods[each.pod];
      out_.begin_object();
      out_.member("namespace", pod.pod_namespace);
      out_.member("name", pod.name);
      out_.member("uid", pod.uid);
      out_.member("node", pod.node);
      out_.member("profile", each.profile.view());
      out_.member("plugin", each.plugin.view());
      out_.member("reason", each.reason.view());
      if (const auto destination = destination_of(each)) {
        out_.member("destination", *destination);
      }
      if (!each.refused.empty()) out_.member("refused", each.refused.view());
      out_.end_object();
      pass_on();
    }
    out_.end_list();
  }

  const rebalance::Snapshot& snapshot_;
  const std::function<void(std::string_view)>& write_;
  JsonWriter out_;
  std::unordered_map<std::string, std::string_view> destinations_;
};

}  // namespace

void write_plan_json(const rebalance::RebalancePlan& plan, const rebalance::Snapshot& snapshot,
                     const std::function<void(std::string_view)>& write) {
  PlanWriter(snapshot, write).write(plan);
}

}  // namespace forestall::cli
