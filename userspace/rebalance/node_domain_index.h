// SPDX-License-Identifier: Apache-2.0
// The values of topology keys (labels of nodes) as numbers, so that a node's domain is looked up
// without a comparison of texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace forestall::rebalance {

class ClusterView;

// Value of a topology key; kNoDomainId: the node does not have the label.
using DomainId = std::int32_t;
inline constexpr DomainId kNoDomainId = -1;

class NodeDomains {
 public:
  // No node has the key.
  explicit NodeDomains(std::size_t nodes) : domains_(nodes, kNoDomainId) {}
  NodeDomains(const ClusterView& view, std::string_view key);

  [[nodiscard]] DomainId of(std::size_t node) const { return domains_[node]; }
  // All domains are below.
  [[nodiscard]] DomainId count() const { return count_; }

 private:
  std::vector<DomainId> domains_;  // by node
  DomainId count_ = 0;
};

class NodeDomainIndex {
 public:
  // `view` must outlive this object.
  explicit NodeDomainIndex(const ClusterView& view);

  // Valid as long as this object.
  [[nodiscard]] const NodeDomains& of(std::string_view key);

 private:
  const ClusterView& view_;
  // Pods may name any number of keys that no node has.
  std::unordered_set<std::string_view> keys_;
  std::unordered_map<std::string_view, NodeDomains> known_;
  const NodeDomains none_;  // of such a key
};

}  // namespace forestall::rebalance
