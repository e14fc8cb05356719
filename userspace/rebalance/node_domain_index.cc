// SPDX-License-Identifier: Apache-2.0
#include "rebalance/node_domain_index.h"

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

NodeDomains::NodeDomains(const ClusterView& view, std::string_view key)
    : NodeDomains(view.snapshot().nodes.size()) {
  std::unordered_map<std::string_view, DomainId> numbers;
  for (NodeIndex i = 0; i < domains_.size(); ++i) {
    const auto value = find_label(view.node(i).labels, key);
    if (!value) continue;
    domains_[i] = numbers.try_emplace(*value, static_cast<DomainId>(numbers.size())).first->second;
  }
  count_ = static_cast<DomainId>(numbers.size());
}

NodeDomainIndex::NodeDomainIndex(const ClusterView& view)
    : view_(view), none_(view.snapshot().nodes.size()) {
  for (const Node& node : view.snapshot().nodes) {
    for (const auto& [key, value] : node.labels) keys_.insert(key);
  }
}

const NodeDomains& NodeDomainIndex::of(std::string_view key) {
  if (!keys_.contains(key)) return none_;
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_.emplace(key, NodeDomains(view_, key)).first->second;
}

}  // namespace forestall::rebalance
