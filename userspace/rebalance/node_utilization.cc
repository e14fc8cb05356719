// SPDX-License-Identifier: Apache-2.0
#include "rebalance/node_utilization.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "rebalance/node_fit.h"

namespace forestall::rebalance {
namespace {

constexpr std::int64_t kMetricCapacity = 100;

// Nothing if the node has none of the resource.
std::optional<Nanos> capacity_of(const Node& node, std::string_view resource) {
  if (resource == kMetricResource) return nanos_of(kMetricResource, kMetricCapacity);
  const Amounts& list = node.allocatable.empty() ? node.capacity : node.allocatable;
  const Amount* const found = list.find(resource);
  if (found == nullptr) return std::nullopt;
  return found->nanos;
}

double percent_of(std::string_view resource, Nanos used, Nanos capacity) {
  const std::int64_t whole = counted(resource, capacity);
  if (whole <= 0) return 0;
  return static_cast<double>(counted(resource, used)) / static_cast<double>(whole) * 100;
}

// The pod must have as many tolerations as the destination has taints, and tolerate each taint,
// whatever its effect. If corrected, it must tolerate those that keep pods away.
bool accepts_taints(const ClusterView& view, const ClusterPod& pod, NodeIndex destination) {
  if (view.corrects(Correction::destination_taints)) {
    return tolerates_node(pod, view.node(destination));
  }
  const auto& taints = view.node(destination).taints;
  return pod.tolerations.size() >= taints.size() &&
         std::all_of(taints.begin(), taints.end(),
                     [&](const Taint& each) { return tolerates(pod, each); });
}

// The loop over source nodes.
class PodMover {
 public:
  PodMover(PluginSession& session, UsageSource& source, const MoveRules& rules)
      : session_(session), source_(source), rules_(rules) {
    destinations_.resize(session.view().snapshot().nodes.size());
    wanted_.resize(source.tracked().size());
    roles_.resize(destinations_.size());
    rooms_.resize(destinations_.size() * wanted_.size());
    for (const std::string& resource : rules.resources) available_.at(resource) = 0;
    for (NodeUtilization* const each : rules.destinations) {
      add_destination(*each, destination_nodes_);
    }
    for (NodeUtilization* const each : rules.further_destinations) {
      add_destination(*each, further_nodes_);
    }
    if (!source.measures_pods() && session.view().corrects(Correction::leaving_pods)) {
      for (const PlaceChange& each : session.view().place_changes()) {
        if (!each.tried && session.view().summary(each.pod).live) ++left_[each.from];
      }
      for (const NodeIndex each : session.left_lately()) ++left_[each];
    }
    if (rules.drains_whole_nodes) {
      for (const PlaceChange& each : session.view().place_changes()) {
        if (each.to && !each.tried) roles_[*each.to] = DrainState::received;
      }
    }
    Counts& counts = session.run().total_available.emplace();
    for (const Amount& each : available_) {
      counts[std::string(each.resource)] = counted(each.resource, each.nanos);
    }
  }

  void move_all() {
    for (NodeUtilization* const each : rules_.sources) {
      if (!move_from(*each)) return;
    }
  }

 private:
  void add_destination(NodeUtilization& node, std::vector<NodeIndex>& nodes) {
    nodes.push_back(node.node);
    destinations_[node.node] = &node;
    measure_room(node.node);
    for (const std::string& resource : rules_.resources) {
      available_.at(resource) += node.cap.of(resource) - node.usage.of(resource);
    }
  }

  [[nodiscard]] bool may_continue(const NodeUtilization& node) const {
    return rules_.source_filter(node) &&
           std::all_of(available_.begin(), available_.end(),
                       [](const Amount& each) { return each.nanos > 0; });
  }

  // False: the plugin ends.
  bool move_from(NodeUtilization& node) {
    if (roles_[node.node] == DrainState::received) return true;
    close(node);
    std::vector<PodIndex> pods = live_pods(session_.view(), node.node);
    sort_by_eviction(session_.view(), pods, hidden_usage(node, pods));
    for (const PodIndex each : pods) session_.consider(each);
    if (session_.view().corrects(Correction::leaving_pods)) subtract_leaving(node, pods);
    const std::vector<PodIndex> all = rules_.drains_whole_nodes ? pods : std::vector<PodIndex>();
    std::erase_if(pods, [&](PodIndex each) {
      return !session_.evictor().filter(each) ||
             (rules_.pod_filter && !rules_.pod_filter(session_.view().pod(each))) ||
             (rules_.drains_whole_nodes && !has_to_leave(each));
    });
    if (pods.empty() || !may_continue(node)) return stays(node, all);
    // Only a later sample shows what the pods used.
    const auto left = left_.find(node.node);
    std::uint64_t evicted = left == left_.end() ? 0 : left->second;
    if (evicted > 0 && !rules_.evictions_per_node) return true;
    reason_ = SharedText(rules_.reason(node));
    if (rules_.drains_whole_nodes && !can_be_emptied(all, pods.front())) return stays(node, all);
    for (const PodIndex each : pods) {
      if (rules_.evictions_per_node && evicted >= *rules_.evictions_per_node) {
        session_.note_limit("Max number of evictions per node per plugin reached");
        return true;
      }
      switch (move_one(node, each, evicted)) {
        case Next::pod: break;
        case Next::node: return true;
        case Next::end: return false;
      }
    }
    return true;
  }

  // Whether all pods that have to leave the node can, together. Records the one that has no room,
  // or `first`, which would leave first.
  [[nodiscard]] bool can_be_emptied(const std::vector<PodIndex>& pods, PodIndex first) {
    std::vector<std::pair<NodeIndex, Amounts>> booked;
    std::string problem;
    for (const PodIndex each : pods) {
      if (!has_to_leave(each)) continue;
      const bool is_protected = !session_.evictor().filter(each);
      const ClusterPod& pod = session_.view().pod(each);
      problem = is_protected
                    ? std::string(pod.pod_namespace) + "/" + std::string(pod.name) + " is protected"
                    : try_one(each, booked);
      if (problem.empty()) continue;
      session_.refuse(is_protected ? first : each, reason_,
                      problem + ", so its node is not drained");
      break;
    }
    session_.end_trial();
    for (const auto& [destination, usage] : booked) {
      for (const Amount& each : usage) {
        destinations_[destination]->usage.at(each.resource) -= each.nanos;
      }
      measure_room(destination);
    }
    return problem.empty();
  }

  // Why the pod cannot leave; empty: it can.
  [[nodiscard]] std::string try_one(PodIndex pod,
                                    std::vector<std::pair<NodeIndex, Amounts>>& booked) {
    if (!session_.evictor().pre_eviction_filter(pod)) return "it fits no other node";
    const std::optional<Amounts> usage = source_.pod(pod);
    if (!usage) return "what it uses is unknown";
    std::optional<NodeIndex> destination;
    std::string problem = session_.try_move(pod, rooms_for(*usage), destination);
    if (!destination) return problem;
    destinations_[*destination]->usage.add(*usage);
    measure_room(*destination);
    booked.emplace_back(*destination, *usage);
    return problem;
  }

  // Pods of DaemonSets and static pods end with their node, and terminating ones end anyway. The
  // policy leaves others alone.
  [[nodiscard]] bool has_to_leave(PodIndex index) const {
    const ClusterPod& pod = session_.view().pod(index);
    const PodSummary& summary = session_.view().summary(index);
    return !summary.of_daemon_set && !summary.evicted_in_background && !pod.mirror &&
           !pod.static_pod && !pod.terminating && rules_.namespaces->accepts(pod.pod_namespace) &&
           (!rules_.pod_filter || rules_.pod_filter(pod)) && session_.evictor().is_in_scope(index);
  }

  // The node is no destination any more.
  void close(const NodeUtilization& node) {
    roles_[node.node] = DrainState::processed;
    if (destinations_[node.node] == nullptr) return;
    for (const std::string& resource : rules_.resources) {
      available_.at(resource) -= node.cap.of(resource) - node.usage.of(resource);
    }
  }

  // True. A node that is not drained is a destination again, unless it is as good as empty.
  bool stays(const NodeUtilization& node, const std::vector<PodIndex>& pods) {
    const auto leaves = [this](PodIndex each) { return has_to_leave(each); };
    if (!rules_.drains_whole_nodes || std::ranges::none_of(pods, leaves)) return true;
    roles_[node.node] = DrainState::none;
    if (destinations_[node.node] == nullptr) return true;
    for (const std::string& resource : rules_.resources) {
      available_.at(resource) += node.cap.of(resource) - node.usage.of(resource);
    }
    return true;
  }

  // What each pod uses above its requests, as the largest share of the node's capacity, of the
  // resources that the node is short of. Nothing if it does not matter. A node that lost requests
  // and kept its usage gets more pods from the scheduler than it has room for. Without placeholders
  // the scheduler places the moved pods as well, and those that hide the most do the most harm.
  std::vector<double> hidden_usage(const NodeUtilization& node, const std::vector<PodIndex>& pods) {
    std::vector<double> hidden;
    if (!source_.is_measured() || !source_.measures_pods() || !session_.policy().placeholder ||
        !session_.view().corrects(Correction::hidden_usage)) {
      return hidden;
    }
    constexpr double kUnknown = -std::numeric_limits<double>::max();
    hidden.resize(pods.size(), kUnknown);
    for (std::size_t i = 0; i < pods.size(); ++i) {
      const auto usage = source_.pod(pods[i]);
      if (!usage) continue;
      const Amounts& request = session_.view().pod(pods[i]).request;
      for (const std::string& resource : rules_.resources) {
        if (resource == kPods || node.usage.of(resource) <= node.cap.of(resource)) continue;
        const auto capacity = capacity_of(session_.view().node(node.node), resource);
        if (!capacity || *capacity <= 0) continue;
        const Nanos surplus = usage->of(resource) - request.of(resource);
        hidden[i] = std::max(hidden[i], to_double(surplus) / to_double(*capacity));
      }
    }
    return hidden;
  }

  // Evicted by an earlier plan, or deleted otherwise: without it the node would lose more pods than
  // necessary until they end.
  void subtract_leaving(NodeUtilization& node, const std::vector<PodIndex>& pods) {
    if (!source_.measures_pods()) return;
    for (const PodIndex each : pods) {
      if (!leaves_soon(session_.view().pod(each), session_.view().now_ns())) continue;
      const auto usage = source_.pod(each);
      if (!usage) continue;
      for (const std::string& resource : source_.tracked()) {
        node.usage.at(resource) -= usage->of(resource);
      }
    }
  }

  enum class Next : std::uint8_t { pod, node, end };

  Next move_one(NodeUtilization& node, PodIndex index, std::uint64_t& evicted) {
    const ClusterPod& pod = session_.view().pod(index);
    const auto accepts = [&](NodeIndex each) { return accepts_taints(session_.view(), pod, each); };
    const bool accepted = std::ranges::any_of(destination_nodes_, accepts) ||
                          std::ranges::any_of(further_nodes_, accepts);
    if (!accepted || !rules_.namespaces->accepts(pod.pod_namespace) ||
        !session_.evictor().pre_eviction_filter(index)) {
      return Next::pod;
    }
    std::optional<Amounts> usage;
    if (source_.measures_pods()) {
      usage = source_.pod(index);
      if (!usage) {
        if (session_.view().corrects(Correction::unknown_usage)) {
          session_.refuse(index, reason_, "what it uses is unknown");
        }
        return Next::pod;
      }
    }
    if (!relieves(node, pod, usage)) {
      session_.refuse(index, reason_, "it uses nothing of what its node is short of");
      return Next::pod;
    }
    Rooms rooms{.nodes = destination_nodes_, .further_nodes = further_nodes_};
    if (usage) {
      rooms = rooms_for(*usage);
    } else if (session_.view().corrects(Correction::room_first)) {
      rooms.accepts = [this, &pod](NodeIndex each) { return keeps_share(pod, each); };
    }
    switch (session_.evict(index, reason_, &rooms)) {
      case EvictResult::total_limit: return Next::end;
      case EvictResult::node_limit: return Next::node;
      case EvictResult::namespace_limit:
      case EvictResult::refused: return Next::pod;
      case EvictResult::evicted: break;
    }
    if (!usage) book_share(pod);
    if (!usage && !rules_.evictions_per_node) return Next::node;
    ++evicted;
    if (!usage) return Next::pod;
    for (const std::string& resource : source_.tracked()) {
      node.usage.at(resource) -= usage->of(resource);
    }
    for (const std::string& resource : rules_.resources) {
      available_.at(resource) -= usage->of(resource);
    }
    book(*usage);
    if (rules_.drains_whole_nodes) return Next::pod;
    return may_continue(node) ? Next::pod : Next::node;
  }

  // For a pod that uses so much. Valid until the next call.
  [[nodiscard]] Rooms rooms_for(const Amounts& usage) {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      wanted_[i] = usage.of(source_.tracked()[i]);
    }
    Rooms rooms{.nodes = destination_nodes_, .further_nodes = further_nodes_};
    rooms.usage = &usage;
    rooms.measured = source_.is_measured();
    rooms.accepts = [this](NodeIndex each) { return stays_below_caps(each); };
    return rooms;
  }

  // Whether the node gets better without the pod. By Prometheus nothing is known of a pod that
  // requests neither cpu nor memory.
  [[nodiscard]] bool relieves(const NodeUtilization& node, const ClusterPod& pod,
                              const std::optional<Amounts>& usage) const {
    if (!rules_.relieves_sources || !session_.view().corrects(Correction::useful_moves)) {
      return true;
    }
    if (!usage) return share_of(pod, node.node) > 0;
    return std::ranges::any_of(rules_.resources, [&](const std::string& resource) {
      return usage->of(resource) > 0 && node.usage.of(resource) > node.cap.of(resource);
    });
  }

  // Whether the destination does with wanted_.
  [[nodiscard]] bool stays_below_caps(NodeIndex destination) const {
    if (roles_[destination] == DrainState::processed) return false;
    const Nanos* const room = rooms_.data() + destination * wanted_.size();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] > room[i]) return false;
    }
    return true;
  }

  // Whether the destination does with the share that the pod may use.
  [[nodiscard]] bool keeps_share(const ClusterPod& pod, NodeIndex destination) const {
    const NodeUtilization& node = *destinations_[destination];
    return node.usage.of(kMetricResource) + share_of(pod, destination) <=
           node.cap.of(kMetricResource);
  }

  [[nodiscard]] Nanos share_of(const ClusterPod& pod, NodeIndex destination) const {
    return share_on(session_.view().node(destination), pod.request.of(kCpu),
                    pod.request.of(kMemory));
  }

  void book_share(const ClusterPod& pod) {
    const auto& destination = session_.run().evictions.back().destination;
    if (!destination) return;
    destinations_[*destination]->usage.at(kMetricResource) += share_of(pod, *destination);
  }

  void measure_room(NodeIndex destination) {
    const NodeUtilization& node = *destinations_[destination];
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const std::string& resource = source_.tracked()[i];
      rooms_[destination * wanted_.size() + i] = node.cap.of(resource) - node.usage.of(resource);
    }
  }

  // Adds the usage of the pod that was just evicted to its destination.
  void book(const Amounts& usage) {
    const auto& destination = session_.run().evictions.back().destination;
    if (!destination) return;
    roles_[*destination] = DrainState::received;
    destinations_[*destination]->usage.add(usage);
    measure_room(*destination);
  }

  PluginSession& session_;
  UsageSource& source_;
  const MoveRules& rules_;
  std::vector<NodeIndex> destination_nodes_;
  std::vector<NodeIndex> further_nodes_;
  std::vector<NodeUtilization*> destinations_;  // by node; null: not one
  enum class DrainState : std::uint8_t { none, processed, received };
  std::vector<DrainState> roles_;  // by node
  // If pods are not measured: how many left each node that the sample may still have.
  std::map<NodeIndex, std::uint64_t> left_;
  // By node and tracked resource: what a destination may use more, and what a pod uses. Those
  // without a threshold count up to the capacity.
  std::vector<Nanos> rooms_;
  std::vector<Nanos> wanted_;
  Amounts available_;
  SharedText reason_;  // of the source: its percentages stay
};

// As the plugin adds them: raw units, so bytes of memory decide. Wraps around as in Go.
std::int64_t raw_sum(const NodeUtilization& usage) {
  std::int64_t sum = 0;
  for (const Amount& each : usage.usage) {
    sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                    static_cast<std::uint64_t>(counted(each.resource, each.nanos)));
  }
  return sum;
}

double mean_of(const Percents& percents) {
  double sum = 0;
  for (const auto& [resource, percent] : percents) sum += percent;
  return percents.empty() ? 0 : sum / static_cast<double>(percents.size());
}

// 29 * 0.01 * 100 is 28.999999999999996.
std::int64_t cap_of(double percent, double whole, bool exact) {
  const double share = (percent * 0.01) * whole;
  constexpr double kMillion = 1e6;
  const double kept = exact ? std::round(share * kMillion) / kMillion : share;
  return static_cast<std::int64_t>(kept);
}

}  // namespace

Result<std::vector<NodeUtilization>> measure(PluginSession& session, UsageSource& source) {
  std::vector<Amounts> usages = TRY(source.nodes(session.policy(), session.nodes()));
  std::vector<NodeUtilization> nodes;
  for (std::size_t i = 0; i < usages.size(); ++i) {
    NodeUtilization& each = nodes.emplace_back();
    each.node = session.nodes()[i];
    each.usage = std::move(usages[i]);
    for (const std::string& resource : source.tracked()) {
      const auto capacity = capacity_of(session.view().node(each.node), resource);
      if (!capacity) continue;
      each.percent[resource] = percent_of(resource, each.usage.of(resource), *capacity);
    }
  }
  return nodes;
}

void set_caps(const ClusterView& view, const std::vector<std::string>& tracked,
              NodeUtilization& usage) {
  for (const std::string& resource : tracked) {
    const Nanos capacity = capacity_of(view.node(usage.node), resource).value_or(0);
    const auto high = usage.high.find(resource);
    if (high == usage.high.end()) {
      usage.cap.at(resource) = capacity;
      continue;
    }
    const double whole = static_cast<double>(counted(resource, capacity));
    usage.cap.at(resource) =
        nanos_of(resource, cap_of(high->second, whole, view.corrects(Correction::exact_caps)));
  }
}

ClassifiedNode classified(const NodeUtilization& usage, NodeClass node_class) {
  ClassifiedNode out;
  out.node = usage.node;
  out.node_class = node_class;
  for (const Amount& each : usage.usage) {
    out.usage[std::string(each.resource)] = counted(each.resource, each.nanos);
  }
  out.percent = usage.percent;
  out.threshold = usage.low;
  out.target = usage.high;
  return out;
}

bool uses_less(const ClusterView& view, const NodeUtilization& a, const NodeUtilization& b) {
  if (view.corrects(Correction::node_order)) return mean_of(a.percent) < mean_of(b.percent);
  return raw_sum(a) < raw_sum(b);
}

std::vector<std::string> deciding_resources(const ClusterView& view, const UsageSource& source,
                                            const Thresholds& thresholds) {
  std::vector<std::string> resources = source.tracked();
  if (view.corrects(Correction::unlisted_resources)) {
    std::erase_if(resources, [&](const auto& each) { return !thresholds.contains(each); });
  }
  return resources;
}

void move_pods(PluginSession& session, UsageSource& source, const MoveRules& rules) {
  PodMover(session, source, rules).move_all();
}

}  // namespace forestall::rebalance
