// SPDX-License-Identifier: Apache-2.0
#include "rebalance/node_fit.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace forestall::rebalance {
namespace {

enum class Misfit : std::uint8_t {
  none,
  cordoned,
  labels,
  taints,
  anti_affinity,
  pod_affinity,
  spread,
  ports,
  volumes,
  resource,
};

struct FitResult {
  Misfit misfit = Misfit::none;
  std::string_view resource;
};

// Only pods of that very node count, and the node merely has to have the topology key.
bool repels_pods_of(const ClusterView& view, const ClusterPod& pod, NodeIndex node) {
  if (!pod.placement) return false;
  for (const PodAffinityTerm& term : pod.placement->anti_affinity) {
    if (!find_label(view.node(node).labels, term.topology_key)) continue;
    for (const PodIndex each : view.pods_on(node)) {
      if (view.summary(each).live && repels(pod, term, view.pod(each))) return true;
    }
  }
  return false;
}

// Rounded up to thousandths.
Nanos in_millis(Nanos amount) {
  // Most amounts are whole, and a division of 128 bits takes long.
  constexpr Nanos kSmall = std::numeric_limits<std::int64_t>::max();
  if (amount >= 0 && amount <= kSmall && static_cast<std::int64_t>(amount) % kNanosPerMilli == 0) {
    return amount;
  }
  return static_cast<Nanos>(rounded(amount, kNanosPerMilli)) * kNanosPerMilli;
}

// The resource that is short on the node; empty: none.
std::string_view short_resource(const ClusterView& view, const ClusterPod& pod, NodeIndex node) {
  for (const Amount& each : pod.request) {
    if (each.resource == kPods) continue;
    if (in_millis(each.nanos) > view.room_on(node, each.resource)) return each.resource;
  }
  return view.room_on(node, kPods) <= 0 ? kPods : std::string_view();
}

bool is_repelled(const ClusterView& view, PodIndex pod, NodeIndex node) {
  return view.corrects(Correction::anti_affinity) ? view.rules_of(pod).repel(node)
                                                  : repels_pods_of(view, view.pod(pod), node);
}

// The beta names stand in old volumes.
constexpr std::pair<std::string_view, std::string_view> kZoneLabels[] = {
    {"topology.kubernetes.io/zone", "topology.kubernetes.io/zone"},
    {"topology.kubernetes.io/region", "topology.kubernetes.io/region"},
    {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
    {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
};

// Whether "a__b" lists the value.
bool lists(std::string_view list, std::string_view value) {
  constexpr std::string_view kBetween = "__";
  for (;;) {
    const std::size_t end = list.find(kBetween);
    if (list.substr(0, end) == value) return true;
    if (end == std::string_view::npos) return false;
    list.remove_prefix(end + kBetween.size());
  }
}

// scheduler/framework/plugins/volumezone: the labels of a volume against those of the node. A node
// without such labels is in a cluster of one zone.
bool in_zone_of(const PersistentVolume& volume, const Node& node) {
  const auto of_node = [&](const auto& names) {
    const auto value = find_label(node.labels, names.first);
    return value ? value : find_label(node.labels, names.second);
  };
  const bool zoned = std::ranges::any_of(
      kZoneLabels, [&](const auto& names) { return of_node(names).has_value(); });
  return !zoned || std::ranges::all_of(kZoneLabels, [&](const auto& names) {
    const auto wanted = find_label(volume.labels, names.first);
    if (!wanted) return true;
    const auto value = of_node(names);
    return value && lists(*wanted, *value);
  });
}

// volumebinding and volumezone, for claims that are bound to a volume of the snapshot.
bool volumes_allow(const ClusterView& view, const ClusterPod& pod, const Node& node) {
  return std::ranges::all_of(pod.claims, [&](std::string_view name) {
    const VolumeClaim* const claim = view.find_claim(pod.pod_namespace, name);
    const PersistentVolume* const volume =
        claim == nullptr ? nullptr : view.find_volume(claim->volume);
    if (volume == nullptr) return true;
    const bool reachable =
        !volume->nodes || std::ranges::any_of(*volume->nodes, [&](const NodeSelectorTerm& term) {
          return matches(term, node.name, node.labels);
        });
    return reachable && in_zone_of(*volume, node);
  });
}

Misfit scheduler_misfit(const ClusterView& view, PodIndex pod, NodeIndex node) {
  if (!view.corrects(Correction::scheduler_filters)) return Misfit::none;
  switch (view.rules_of(pod).problem(node)) {
    case PlacementProblem::none: break;
    case PlacementProblem::pod_affinity: return Misfit::pod_affinity;
    case PlacementProblem::spread: return Misfit::spread;
    case PlacementProblem::ports: return Misfit::ports;
  }
  return volumes_allow(view, view.pod(pod), view.node(node)) ? Misfit::none : Misfit::volumes;
}

FitResult check(const ClusterView& view, PodIndex pod_index, NodeIndex node_index) {
  const ClusterPod& pod = view.pod(pod_index);
  const Node& node = view.node(node_index);
  if (node.unschedulable) return {Misfit::cordoned, {}};
  if (!matches_node(pod, node)) return {Misfit::labels, {}};
  if (!tolerates_node(pod, node)) return {Misfit::taints, {}};
  if (is_repelled(view, pod_index, node_index)) return {Misfit::anti_affinity, {}};
  if (const Misfit found = scheduler_misfit(view, pod_index, node_index); found != Misfit::none) {
    return {found, {}};
  }
  if (pod.node != node.name) {
    const std::string_view missing = short_resource(view, pod, node_index);
    if (!missing.empty()) return {Misfit::resource, missing};
  }
  return {};
}

}  // namespace

std::string fit_problem(const ClusterView& view, PodIndex pod, NodeIndex node) {
  const FitResult result = check(view, pod, node);
  switch (result.misfit) {
    case Misfit::none: return "";
    case Misfit::cordoned: return "node is not schedulable";
    case Misfit::labels: return "pod node selector does not match the node label";
    case Misfit::taints: return "pod does not tolerate taints on the node";
    case Misfit::anti_affinity:
      return "pod matches inter-pod anti-affinity rule of other pod on node";
    case Misfit::pod_affinity: return "node(s) didn't match pod affinity rules";
    case Misfit::spread: return "node(s) didn't match pod topology spread constraints";
    case Misfit::ports: return "node(s) didn't have free ports for the requested pod ports";
    case Misfit::volumes: return "node(s) had volume node affinity conflict";
    case Misfit::resource: return "insufficient " + std::string(result.resource);
  }
  return "";
}

bool fits(const ClusterView& view, PodIndex pod, NodeIndex node) {
  return check(view, pod, node).misfit == Misfit::none;
}

bool fits_any(const ClusterView& view, PodIndex pod, std::span<const NodeIndex> nodes) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeIndex each) { return fits(view, pod, each); });
}

bool fits_any_other(const ClusterView& view, PodIndex pod, std::span<const NodeIndex> nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeIndex each) {
    return view.node(each).name != view.pod(pod).node && fits(view, pod, each);
  });
}

// The rules between pods are compared first, because they take the least memory.
RuleFit::RuleFit(const ClusterView& view, PodIndex pod)
    : view_(view), pod_(pod), has_claims_(!view.pod(pod).claims.empty()) {
  const bool all_rules =
      view.corrects(Correction::anti_affinity) && view.corrects(Correction::scheduler_filters);
  if (all_rules) rules_ = &view.rules_of(pod);
}

bool RuleFit::has_volumes(NodeIndex node) const {
  return volumes_allow(view_, view_.pod(pod_), view_.node(node));
}

bool RuleFit::fits_one_by_one(NodeIndex node) const {
  return !view_.node(node).unschedulable && !is_repelled(view_, pod_, node) &&
         scheduler_misfit(view_, pod_, node) == Misfit::none;
}

PodNeed::PodNeed(const ClusterView& view, PodIndex pod) : view_(view), pod_(view.pod(pod)) {
  const PodSummary& summary = view.summary(pod);
  if (summary.requests_cpu) cpu_ = in_millis(summary.cpu);
  if (summary.requests_memory) memory_ = in_millis(summary.memory);
  needs_more_ = summary.requests_more;
}

bool PodNeed::has_others(NodeIndex node) const {
  return short_resource(view_, pod_, node).empty();
}

bool matches_node(const ClusterPod& pod, const Node& node) {
  if (!pod.placement) return true;
  for (const auto& [key, value] : pod.placement->node_selector) {
    if (find_label(node.labels, key) != value) return false;
  }
  const auto& terms = pod.placement->required_nodes;
  if (!terms) return true;
  return std::any_of(terms->begin(), terms->end(), [&](const NodeSelectorTerm& each) {
    return matches(each, node.name, node.labels);
  });
}

bool tolerates(const ClusterPod& pod, const Taint& taint) {
  return std::any_of(pod.tolerations.begin(), pod.tolerations.end(),
                     [&](const PodToleration& each) { return tolerates(each, taint); });
}

bool tolerates_node(const ClusterPod& pod, const Node& node) {
  return std::all_of(node.taints.begin(), node.taints.end(), [&](const Taint& each) {
    const bool keeps_away =
        each.effect == TaintEffect::no_schedule || each.effect == TaintEffect::no_execute;
    return !keeps_away || tolerates(pod, each);
  });
}

bool repels(const ClusterPod& pod, const PodAffinityTerm& term, const ClusterPod& other) {
  return other.name != pod.name && selects(pod, term, other);
}

bool selects(const ClusterPod& pod, const PodAffinityTerm& term, const ClusterPod& other) {
  if (!term.selector) return false;
  const bool in_namespace = term.namespaces.empty()
                                ? other.pod_namespace == pod.pod_namespace
                                : std::find(term.namespaces.begin(), term.namespaces.end(),
                                            other.pod_namespace) != term.namespaces.end();
  return in_namespace && matches(*term.selector, other.labels);
}

std::vector<NodeIndex> ready_nodes(const ClusterView& view, const LabelSelector& selector) {
  std::vector<NodeIndex> nodes;
  for (NodeIndex i = 0; i < view.snapshot().nodes.size(); ++i) {
    if (view.node(i).ready && matches(selector, view.node(i).labels)) nodes.push_back(i);
  }
  return nodes;
}

}  // namespace forestall::rebalance
