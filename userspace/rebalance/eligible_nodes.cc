// SPDX-License-Identifier: Apache-2.0
#include "rebalance/eligible_nodes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rebalance/node_fit.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

bool keeps_pods_away(const Node& node) {
  return std::any_of(node.taints.begin(), node.taints.end(), [](const Taint& each) {
    return each.effect == TaintEffect::no_schedule || each.effect == TaintEffect::no_execute;
  });
}

void add_terms(TextKey& key, const std::vector<NodeSelectorTerm>& terms) {
  key.add(terms.size());
  for (const NodeSelectorTerm& each : terms) {
    key.add(each.expressions);
    key.add(each.fields);
  }
}

void add_affinity(TextKey& key, const PodPlacement& placement) {
  key.add(placement.node_selector.size());
  for (const auto& [label, value] : placement.node_selector) {
    key.add(label);
    key.add(value);
  }
  if (placement.required_nodes) add_terms(key, *placement.required_nodes);
}

void add_tolerations(TextKey& key, const std::vector<PodToleration>& tolerations) {
  key.add(tolerations.size());
  for (const PodToleration& each : tolerations) {
    key.add(each.key);
    key.add(each.value);
    key.add(static_cast<std::size_t>(each.op));
    key.add(each.effect ? static_cast<std::size_t>(*each.effect) + 1 : 0);
  }
}

}  // namespace

EligibleNodes::EligibleNodes(const ClusterView& view, std::span<const NodeIndex> nodes)
    : view_(view), all_(nodes.begin(), nodes.end()) {
  tainted_ = std::any_of(all_.begin(), all_.end(),
                         [&](NodeIndex each) { return keeps_pods_away(view.node(each)); });
}

const std::vector<NodeIndex>& EligibleNodes::of(const ClusterPod& pod, Rules rules) {
  const bool by_affinity = rules.affinity && pod.placement &&
                           (!pod.placement->node_selector.empty() || pod.placement->required_nodes);
  const bool by_taints = rules.taints && tainted_;
  if (!by_affinity && !by_taints) return all_;
  TextKey key;
  key.add(by_affinity ? std::size_t{1} : 0);
  if (by_affinity) add_affinity(key, *pod.placement);
  if (by_taints) add_tolerations(key, pod.tolerations);
  const auto [known, is_new] = known_.try_emplace(std::move(key).take());
  if (is_new) {
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(known->second), [&](NodeIndex each) {
      const Node& node = view_.node(each);
      return (!by_affinity || matches_node(pod, node)) && (!by_taints || tolerates_node(pod, node));
    });
  }
  return known->second;
}

}  // namespace forestall::rebalance
