// SPDX-License-Identifier: Apache-2.0
// DefaultEvictor: which pods may be evicted (Filter), and what is checked right before an eviction
// (PreEvictionFilter).
#pragma once

#include <cstdint>
#include <vector>

#include "rebalance/cluster_view.h"
#include "rebalance/fit_search.h"
#include "rebalance/plan.h"
#include "rebalance/policy.h"

namespace forestall::rebalance {

class DefaultEvictor {
 public:
  // Both must outlive this object.
  DefaultEvictor(const ClusterView& view, const DefaultEvictorArgs& args);

  // Whether the pod is a candidate.
  [[nodiscard]] bool filter(PodIndex pod) const;
  [[nodiscard]] bool pre_eviction_filter(PodIndex pod) const;

  // Whether the selectors of the policy apply to the pod. Others are not protected, but left alone.
  [[nodiscard]] bool is_in_scope(PodIndex pod) const;

  // Every reason against the pod, in the descheduler's words; none if it passes.
  [[nodiscard]] Reasons filter_reasons(PodIndex pod) const;
  [[nodiscard]] Reasons pre_eviction_reasons(PodIndex pod) const;

  // The nodes that nodeFit considers, by index.
  [[nodiscard]] std::span<const NodeIndex> fit_nodes() const { return fit_nodes_; }

 private:
  // `refuse(text)` receives each reason and returns whether to go on.
  template <typename Refuse>
  void check_filter(PodIndex pod, Refuse refuse) const;
  template <typename Refuse>
  void check_pre_eviction(PodIndex pod, Refuse refuse) const;
  [[nodiscard]] bool has(PodProtection each) const {
    return (protections_ & (1U << static_cast<unsigned>(each))) != 0;
  }
  // The threshold belongs to the protection of system critical pods. If corrected, one below their
  // priorities stands for itself.
  [[nodiscard]] bool threshold_applies() const {
    return has(PodProtection::system_critical_pods) ||
           (view_.corrects(Correction::priority_threshold) &&
            args_.priority_threshold < kSystemCriticalPriority);
  }

  // What no eviction changes. minReplicas counts what is left.
  [[nodiscard]] bool verdicts_last() const { return args_.min_replicas <= 1; }

  [[nodiscard]] bool selects_namespace(const ClusterPod& pod) const;

  enum class Verdict : std::uint8_t { unknown, passes, fails };

  const ClusterView& view_;
  const DefaultEvictorArgs& args_;
  mutable std::vector<Verdict> verdicts_;  // by pod, of filter(), if they last
  unsigned protections_ = 0;               // a bit for each
  std::vector<NodeIndex> fit_nodes_;       // candidates of nodeFit
  mutable FitSearch fit_search_;           // keeps what it found
};

}  // namespace forestall::rebalance
