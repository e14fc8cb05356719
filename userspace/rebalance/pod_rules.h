// SPDX-License-Identifier: Apache-2.0
// The rules between pods for one pod, prepared for a comparison with many nodes: a search for room
// makes millions of such comparisons.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rebalance/node_domain_index.h"

namespace forestall::rebalance {

class ClusterView;

enum class PlacementProblem : std::uint8_t { none, pod_affinity, spread, ports };

// A domain as one of so many bits, which several domains may share.
inline constexpr DomainId kDomainBits = 64;
[[nodiscard]] constexpr std::uint64_t bit_of(DomainId domain) {
  return std::uint64_t{1} << (static_cast<std::uint32_t>(domain) % kDomainBits);
}

// Numbers of pods, by domain.
class DomainCounts {
 public:
  void add(DomainId domain, std::int32_t change);
  [[nodiscard]] std::int64_t of(DomainId domain) const {
    for (std::uint32_t i = 0; i < few_size_; ++i) {
      if (few_[i].domain == domain) return few_[i].pods;
    }
    return others_ == nullptr ? 0 : others_->of(domain);
  }
  [[nodiscard]] std::int64_t total() const { return total_; }
  // The smallest number in `domains` domains, without one pod of the domain `without`, if it is
  // one.
  [[nodiscard]] std::int64_t least(std::size_t domains, DomainId without) const;
  // The bits of the domains with more than `most` pods. If there are many domains, all bits.
  [[nodiscard]] std::uint64_t bits_above(std::int64_t most) const;

 private:
  struct DomainCount {
    DomainId domain = kNoDomainId;
    std::int32_t pods = 0;
  };
  struct Others {
    [[nodiscard]] std::int64_t of(DomainId domain) const {
      const auto found = pods.find(domain);
      return found == pods.end() ? 0 : found->second;
    }
    void add(DomainId domain, std::int32_t change);

    std::unordered_map<DomainId, std::int32_t> pods;
    std::map<std::int32_t, std::size_t> sizes;  // how many of them have so many pods
  };
  // The pods of most groups are in so few domains.
  static constexpr std::uint32_t kFewDomains = 12;

  // Domains without pods are in neither.
  std::array<DomainCount, kFewDomains> few_;
  std::uint32_t few_size_ = 0;
  std::int64_t total_ = 0;
  std::unique_ptr<Others> others_;
};

// Live pods with host ports, by node.
using PodsWithPorts = std::unordered_map<std::size_t, std::vector<std::size_t>>;

// Pods that a rule of the pod selects, or that have a rule that selects the pod.
struct CountedPods {
  const NodeDomains* topology = nullptr;
  const DomainCounts* counts = nullptr;
  DomainId own_domain = kNoDomainId;  // where the pod itself is counted
  bool selects_itself = false;
  std::int64_t most_others = 0;  // in a domain that the rule admits
  // Has the bits of all domains with more, and if they are exact, no others.
  std::uint64_t full_bits = 0;
  bool is_exact = false;

  // REQUIRES: a domain.
  [[nodiscard]] std::int64_t others_in(DomainId domain) const {
    return counts->of(domain) - (own_domain == domain ? 1 : 0);
  }
  [[nodiscard]] bool is_full(DomainId domain) const {
    if ((full_bits & bit_of(domain)) == 0) return false;
    return is_exact || others_in(domain) > most_others;
  }
  // After all other members.
  void set_most(std::int64_t most);
};

class PodRules {
 public:
  // Whether required anti-affinity keeps the pod away from the node.
  [[nodiscard]] bool repel(std::size_t node) const {
    for (const CountedPods& each : repelling_) {
      const DomainId domain = each.topology->of(node);
      if (domain != kNoDomainId && each.is_full(domain)) return true;
    }
    return false;
  }
  // Whether all rules admit the pod. What refuses the most nodes comes first.
  [[nodiscard]] bool admit(std::size_t node) const {
    return keep_spread(node) && !repel(node) && has_affinity(node) && has_ports(node);
  }
  // The rules other than anti-affinity.
  [[nodiscard]] PlacementProblem problem(std::size_t node) const;

 private:
  friend class PlacementRules;  // prepares them

  // podtopologyspread Filter().
  [[nodiscard]] bool keep_spread(std::size_t node) const {
    for (const CountedPods& each : spread_) {
      const DomainId domain = each.topology->of(node);
      if (domain == kNoDomainId || each.is_full(domain)) return false;
    }
    return true;
  }
  [[nodiscard]] bool has_affinity(std::size_t node) const {
    return !unsatisfiable_ && (affinity_.empty() || has_pods_for_affinity(node));
  }
  [[nodiscard]] bool has_ports(std::size_t node) const {
    return with_ports_ == nullptr || has_free_ports(node);
  }
  [[nodiscard]] bool has_pods_for_affinity(std::size_t node) const;
  [[nodiscard]] bool has_free_ports(std::size_t node) const;

  std::vector<CountedPods> repelling_;
  std::vector<CountedPods> affinity_;
  std::vector<CountedPods> spread_;
  bool unsatisfiable_ = false;  // its affinity selects no pod
  const ClusterView* view_ = nullptr;
  std::size_t pod_ = 0;
  const PodsWithPorts* with_ports_ = nullptr;  // null: the pod has no host port
};

}  // namespace forestall::rebalance
