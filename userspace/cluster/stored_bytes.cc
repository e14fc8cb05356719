// SPDX-License-Identifier: Apache-2.0
#include "cluster/stored_bytes.h"

#include <optional>
#include <vector>

namespace forestall::cluster {
namespace {

using rebalance::LabelSelector;
using rebalance::NodeSelectorTerm;
using rebalance::Requirement;

template <typename T>
std::size_t of_list(const std::vector<T>& list) {
  return list.capacity() * sizeof(T);
}

std::size_t of_amounts(const rebalance::Amounts& amounts) {
  return amounts.size() * sizeof(rebalance::Amount);
}

std::size_t of_requirements(const std::vector<Requirement>& list) {
  std::size_t bytes = of_list(list);
  for (const Requirement& each : list) {
    bytes += each.key.size() + of_list(each.values);
    for (const std::string& value : each.values) bytes += value.size();
  }
  return bytes;
}

std::size_t of_selector(const std::optional<LabelSelector>& selector) {
  return selector ? of_requirements(selector->requirements) : 0;
}

std::size_t of_term(const NodeSelectorTerm& term) {
  return of_requirements(term.expressions) + of_requirements(term.fields);
}

std::size_t of_terms(const std::optional<std::vector<NodeSelectorTerm>>& terms) {
  if (!terms) return 0;
  std::size_t bytes = of_list(*terms);
  for (const NodeSelectorTerm& each : *terms) bytes += of_term(each);
  return bytes;
}

std::size_t of_affinity(const std::vector<rebalance::PodAffinityTerm>& terms) {
  std::size_t bytes = of_list(terms);
  for (const rebalance::PodAffinityTerm& each : terms) {
    bytes += of_selector(each.selector) + of_selector(each.namespace_selector) +
             of_list(each.namespaces);
  }
  return bytes;
}

std::size_t of_placement(const rebalance::PodPlacement& placement) {
  std::size_t bytes = sizeof placement + of_list(placement.node_selector) +
                      of_terms(placement.required_nodes) + of_list(placement.preferred_nodes) +
                      of_affinity(placement.anti_affinity) + of_affinity(placement.pod_affinity) +
                      of_list(placement.spread);
  for (const auto& each : placement.preferred_nodes) bytes += of_term(each.preference);
  for (const auto& each : placement.spread) {
    bytes += of_selector(each.selector) + of_list(each.match_label_keys);
  }
  return bytes;
}

}  // namespace

std::size_t stored_bytes(const rebalance::Node& node) {
  return sizeof node + of_list(node.labels) + of_list(node.taints) + of_amounts(node.capacity) +
         of_amounts(node.allocatable);
}

std::size_t stored_bytes(const rebalance::ClusterPod& pod) {
  return sizeof pod + of_list(pod.labels) + of_list(pod.claims) + of_list(pod.owners) +
         of_list(pod.images) + of_amounts(pod.request) + of_list(pod.requested_resources) +
         of_list(pod.host_ports) + of_list(pod.tolerations) + of_list(pod.containers) +
         of_list(pod.init_containers) + of_list(pod.ephemeral_containers) +
         of_list(pod.conditions) + (pod.placement ? of_placement(*pod.placement) : 0);
}

std::size_t stored_bytes(const rebalance::ClusterNamespace& each) {
  return sizeof each + of_list(each.labels);
}

std::size_t stored_bytes(const rebalance::DisruptionBudget& budget) {
  return sizeof budget + of_selector(budget.selector);
}

std::size_t stored_bytes(const rebalance::VolumeClaim& claim) {
  return sizeof claim;
}

std::size_t stored_bytes(const rebalance::PersistentVolume& volume) {
  return sizeof volume + of_list(volume.labels) + of_terms(volume.nodes);
}

std::size_t stored_bytes(const rebalance::PriorityClass& each) {
  return sizeof each + each.name.size();
}

}  // namespace forestall::cluster
