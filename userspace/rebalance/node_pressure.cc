// SPDX-License-Identifier: Apache-2.0
// NodePressure: pods leave nodes whose memory is about to be short by the nodes' own reports. It is
// no plugin of the descheduler.
#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "rebalance/percent_text.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

constexpr std::string_view kMemorySignal = "memory.";
constexpr double kNever = std::numeric_limits<double>::infinity();
// A destination must be so many times as far from its thresholds as what makes a source.
constexpr double kDestinationFactor = 2;
constexpr double kPercent = 0.01;

std::string seconds_text(double seconds) {
  return std::to_string(static_cast<std::int64_t>(seconds)) + " s";
}

std::string mib_text(Nanos bytes) {
  constexpr int kMibShift = 20;
  return std::to_string(rounded(bytes, kNanosPerUnit) >> kMibShift) + " MiB";
}

bool is_about_memory(const ReportedThreshold& threshold) {
  return threshold.signal.starts_with(kMemorySignal);
}

// Until a threshold is crossed.
double seconds_until(Nanos headroom, Nanos growth) {
  if (headroom <= 0) return 0;
  if (growth <= 0) return kNever;
  return static_cast<double>(headroom) / static_cast<double>(growth);
}

double seconds_of(const ReportedThreshold& threshold) {
  if (threshold.headroom <= 0) return 0;
  return threshold.seconds.value_or(kNever);
}

struct Verdict {
  double seconds = kNever;  // to the nearest threshold
  bool crosses = false;
  bool stalls = false;
  std::string reason;  // if one of both

  [[nodiscard]] bool over() const { return crosses || stalls; }
};

Verdict verdict_on(const NodeReport& report, const NodePressureArgs& args) {
  Verdict verdict;
  const auto add = [&](const std::string& text) {
    verdict.reason += (verdict.reason.empty() ? "" : ", ") + text;
  };
  for (const ReportedThreshold& each : report.thresholds) {
    if (!is_about_memory(each)) continue;
    const double seconds = seconds_of(each);
    verdict.seconds = std::min(verdict.seconds, seconds);
    if (seconds > args.seconds_to_crossing) continue;
    verdict.crosses = true;
    add(std::string(each.signal) + (each.headroom <= 0
                                        ? " is crossed"
                                        : " is crossed in " + seconds_text(seconds) +
                                              ": headroom " + mib_text(each.headroom)));
  }
  const auto check_stall = [&](const char* name, const std::optional<double>& share,
                               const std::optional<double>& limit) {
    if (!share || !limit || *share <= *limit) return;
    verdict.stalls = true;
    add(std::string(name) + " memory stall " + percent_text(*share) + " above " +
        percent_text(*limit));
  };
  check_stall("some", report.some, args.some_stall);
  check_stall("full", report.full, args.full_stall);
  return verdict;
}

struct PressedNode {
  NodeIndex node = 0;
  const NodeReport* report = nullptr;  // the newest; null: unknown
  Verdict verdict;
  std::uint64_t leaving = 0;  // pods that terminate or were moved, and that the report has
  std::uint64_t moved = 0;    // so many of them by earlier plans
  // Of those and of evicted pods, and of pods that are expected here.
  Nanos left = 0;
  Nanos left_growth = 0;
  Nanos booked = 0;
  Nanos booked_growth = 0;
};

class PressureMover {
 public:
  PressureMover(PluginSession& session, const NodePressureArgs& args)
      : session_(session), args_(args) {}

  void run() {
    classify_all();
    if (sources_.empty()) {
      session_.run().outcome = "no node is under pressure";
      return;
    }
    if (destinations_.empty()) {
      session_.run().outcome = "no node without pressure has a current report";
      return;
    }
    std::stable_sort(sources_.begin(), sources_.end(),
                     [](const PressedNode& a, const PressedNode& b) {
                       return a.verdict.seconds < b.verdict.seconds;
                     });
    for (PressedNode& each : sources_) {
      if (!move_from(each)) return;
    }
  }

 private:
  [[nodiscard]] std::int64_t max_age_ns() const {
    return static_cast<std::int64_t>(args_.max_report_age_seconds) * kNanosPerUnit;
  }

  void classify_all() {
    for (const PlaceChange& each : session_.view().place_changes()) {
      if (each.tried) continue;
      const std::string_view uid = session_.view().pod(each.pod).uid;
      if (!uid.empty()) evicted_.insert(uid);
    }
    std::unordered_map<std::string_view, std::vector<const NodeReport*>> by_node;
    for (const NodeReport& each : session_.view().snapshot().reports) {
      by_node[each.node].push_back(&each);
    }
    for (const NodeIndex node : session_.nodes()) {
      const auto found = by_node.find(session_.view().node(node).name);
      std::vector<const NodeReport*> none;
      classify(node, found == by_node.end() ? none : found->second);
    }
    for (PressedNode& each : destinations_) {
      destination_nodes_.push_back(each.node);
      by_index_.emplace(each.node, &each);
    }
    for (const Booking& each : session_.bookings()) {
      const auto found = by_index_.find(each.node);
      if (found == by_index_.end()) continue;
      found->second->booked += each.working_set;
      found->second->booked_growth += each.growth;
    }
  }

  // `reports` in the order of their times.
  void classify(NodeIndex node, const std::vector<const NodeReport*>& reports) {
    ClassifiedNode& out = session_.run().nodes.emplace_back();
    out.node = node;
    out.node_class = NodeClass::excluded;
    if (reports.empty()) {
      out.detail = "no report";
      return;
    }
    const NodeReport& newest = *reports.back();
    if (newest.working_set) out.usage["memory"] = counted(kMemory, *newest.working_set);
    const std::int64_t age = session_.view().now_ns() - newest.time_ns;
    if (age > max_age_ns() || age < -max_age_ns()) {
      out.detail = "the report is " + std::to_string(age / kNanosPerUnit) + " s old";
      return;
    }
    PressedNode pressed{.node = node, .report = &newest, .verdict = verdict_on(newest, args_)};
    out.detail = pressed.verdict.reason;
    if (pressed.verdict.over()) {
      const std::uint64_t series = length_of_series(reports);
      out.detail += "; in " + std::to_string(series) + " of " +
                    std::to_string(args_.consecutive_reports) + " reports";
      if (series < args_.consecutive_reports) return;
      out.node_class = NodeClass::source;
      count_leaving(pressed);
      if (pressed.leaving > 0) {
        out.detail +=
            "; " + std::to_string(pressed.leaving) + " pods leave with " + mib_text(pressed.left);
      }
      sources_.push_back(std::move(pressed));
    } else if (!session_.view().node(node).unschedulable && has_memory_threshold(newest)) {
      out.node_class = NodeClass::destination;
      destinations_.push_back(std::move(pressed));
    }
  }

  // What the report still has of pods that terminate, of those that earlier plugins of the plan
  // evicted, and of those that earlier plans moved and that are gone. Without it more pods would be
  // evicted until the next reports. Another pod that is absent may still run: its object was
  // deleted by force, or it is a static pod.
  void count_leaving(PressedNode& node) const {
    std::unordered_map<std::string_view, const ClusterPod*> present;
    for (const PodIndex each : session_.view().pods_on(node.node)) {
      const ClusterPod& pod = session_.view().pod(each);
      present.emplace(pod.uid, &pod);
    }
    for (const ReportedPod& each : node.report->pods) {
      if (each.uid.empty()) continue;
      const auto found = present.find(each.uid);
      const bool evicted = evicted_.contains(each.uid);
      const bool moved = evicted || session_.was_moved(node.node, each.pod_namespace, each.name);
      const bool terminates =
          found != present.end() && leaves_soon(*found->second, session_.view().now_ns());
      if (!terminates && !(moved && found == present.end())) continue;
      ++node.leaving;
      if (moved) ++node.moved;
      node.left += each.working_set;
      node.left_growth += each.growth.value_or(0);
    }
  }

  static bool has_memory_threshold(const NodeReport& report) {
    return std::ranges::any_of(report.thresholds, is_about_memory);
  }

  // How many of the newest reports are over without a gap, at most those that are needed.
  [[nodiscard]] std::uint64_t length_of_series(
      const std::vector<const NodeReport*>& reports) const {
    std::uint64_t length = 0;
    std::int64_t next_ns = reports.back()->time_ns;
    for (auto each = reports.rbegin(); each != reports.rend(); ++each) {
      if (length == args_.consecutive_reports) break;
      if (length > 0 && (*each)->time_ns == next_ns) continue;  // read twice
      if (next_ns - (*each)->time_ns > max_age_ns()) break;
      if (!verdict_on(**each, args_).over()) break;
      next_ns = (*each)->time_ns;
      ++length;
    }
    return length;
  }

  // By priority, then the pod that grows most, then the largest.
  [[nodiscard]] bool goes_before(PodIndex a, PodIndex b) const {
    const auto key = [&](PodIndex index) {
      const ClusterPod& pod = session_.view().pod(index);
      const ReportedPod* const measured = usage_.at(index);
      return std::tuple(pod.priority.has_value(), pod.priority.value_or(0),
                        -measured->growth.value_or(0), -measured->working_set, index);
    };
    return key(a) < key(b);
  }

  // The pods that may leave, in order.
  std::vector<PodIndex> candidates(const PressedNode& node) {
    std::unordered_map<std::string_view, std::vector<const ReportedPod*>> by_name;
    for (const ReportedPod& each : node.report->pods) by_name[each.name].push_back(&each);
    usage_.clear();
    std::vector<PodIndex> pods;
    for (const PodIndex each : live_pods(session_.view(), node.node)) {
      const ClusterPod& pod = session_.view().pod(each);
      const auto named = by_name.find(pod.name);
      const ReportedPod* measured = nullptr;
      if (named != by_name.end()) {
        const auto same = std::ranges::find_if(named->second, [&](const ReportedPod* one) {
          return one->pod_namespace == pod.pod_namespace &&
                 (one->uid.empty() || one->uid == pod.uid);
        });
        if (same != named->second.end()) measured = *same;
      }
      if (measured == nullptr) {
        session_.consider(each, "pod is not in the report of its node");
        continue;
      }
      // Neither its place in the order nor the headroom of a destination could be computed.
      if (!measured->growth) {
        session_.consider(each, "the growth of the pod is unknown");
        continue;
      }
      usage_[each] = measured;
      pods.push_back(each);
    }
    std::ranges::sort(pods, [&](PodIndex a, PodIndex b) { return goes_before(a, b); });
    for (const PodIndex each : pods) session_.consider(each);
    std::erase_if(pods, [&](PodIndex each) { return !session_.evictor().filter(each); });
    return pods;
  }

  // Whether what left is sufficient. How a stall changes is not predictable, nor how the headroom
  // does if its growth is unknown: after one pod the next report decides.
  [[nodiscard]] bool is_relieved(const PressedNode& node, std::uint64_t evicted) const {
    if (evicted == 0 && node.leaving == 0) return false;
    // What a tenant deletes on its own decides nothing here: it may do so without end.
    const bool one_left = evicted + node.moved > 0;
    if (node.verdict.stalls && !one_left) return false;
    return std::ranges::all_of(node.report->thresholds, [&](const ReportedThreshold& each) {
      if (!is_about_memory(each)) return true;
      if (!each.growth) return one_left;
      return seconds_until(each.headroom + node.left, *each.growth - node.left_growth) >
             args_.seconds_to_crossing;
    });
  }

  // False: the plugin ends.
  bool move_from(PressedNode& node) {
    std::uint64_t evicted = 0;
    if (is_relieved(node, evicted)) return true;
    for (const PodIndex each : candidates(node)) {
      if (args_.evictions_per_node && evicted >= *args_.evictions_per_node) {
        session_.note_limit("Max number of evictions per node per plugin reached");
        return true;
      }
      const ClusterPod& pod = session_.view().pod(each);
      if (!args_.namespaces.accepts(pod.pod_namespace) ||
          !session_.evictor().pre_eviction_filter(each)) {
        continue;
      }
      switch (move_one(node, each)) {
        case EvictResult::total_limit: return false;
        case EvictResult::node_limit: return true;
        case EvictResult::namespace_limit:
        case EvictResult::refused: continue;
        case EvictResult::evicted: break;
      }
      ++evicted;
      if (is_relieved(node, evicted)) return true;
    }
    return true;
  }

  EvictResult move_one(PressedNode& node, PodIndex index) {
    const ReportedPod& measured = *usage_.at(index);
    Amounts usage;
    usage.at(kMemory) = measured.working_set;
    usage.at(kGrowth) = std::max<Nanos>(measured.growth.value_or(0), 0);
    const Rooms rooms{.nodes = destination_nodes_,
                      .accepts = [&](NodeIndex each) { return has_headroom(each, usage); },
                      .usage = &usage,
                      .measured = true,
                      .required = true};
    const EvictResult result = session_.evict(index, node.verdict.reason, &rooms);
    if (result != EvictResult::evicted) return result;
    node.left += measured.working_set;
    node.left_growth += measured.growth.value_or(0);
    if (const auto& destination = session_.run().evictions.back().destination) {
      PressedNode& at = *by_index_.at(*destination);
      at.booked += usage.of(kMemory);
      at.booked_growth += usage.of(kGrowth);
    }
    return result;
  }

  // Whether the node stays far from its thresholds with the pod.
  [[nodiscard]] bool has_headroom(NodeIndex index, const Amounts& usage) const {
    const PressedNode& node = *by_index_.at(index);
    const auto& capacity = node.report->capacity;
    if (!capacity) return false;  // how much must stay free is unknown
    const double least =
        args_.destination_headroom_percent * kPercent * static_cast<double>(*capacity);
    return std::ranges::all_of(node.report->thresholds, [&](const ReportedThreshold& each) {
      if (!is_about_memory(each)) return true;
      if (!each.growth) return false;  // it may be short soon
      const Nanos headroom = each.headroom - node.booked - usage.of(kMemory);
      const Nanos growth = *each.growth + node.booked_growth + usage.of(kGrowth);
      return headroom > 0 && static_cast<double>(headroom) >= least &&
             seconds_until(headroom, growth) > args_.seconds_to_crossing * kDestinationFactor;
    });
  }

  PluginSession& session_;
  const NodePressureArgs& args_;
  std::unordered_set<std::string_view> evicted_;  // UIDs, by earlier plugins of the plan
  std::vector<PressedNode> sources_;
  std::vector<PressedNode> destinations_;
  std::vector<NodeIndex> destination_nodes_;
  std::unordered_map<NodeIndex, PressedNode*> by_index_;
  std::unordered_map<PodIndex, const ReportedPod*> usage_;  // of the present source's pods
};

}  // namespace

void run_plugin(PluginSession& session, const NodePressureArgs& args) {
  PressureMover(session, args).run();
}

}  // namespace forestall::rebalance
