// SPDX-License-Identifier: Apache-2.0
// Pods by label, so that those which a selector matches are found without a test of all others.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

class LabelIndex {
 public:
  // `view` must outlive this object. REQUIRES: `pods` is in ascending order.
  LabelIndex(const ClusterView& view, std::vector<PodIndex> pods)
      : view_(view), pods_(std::move(pods)) {}

  // In ascending order.
  [[nodiscard]] std::vector<PodIndex> matching(const LabelSelector& selector);

 private:
  using PodsByValue = std::unordered_map<std::string_view, std::vector<PodIndex>>;

  // By the values of this label.
  const PodsByValue& by_value(const std::string& key);

  const ClusterView& view_;
  std::vector<PodIndex> pods_;
  std::unordered_map<std::string, PodsByValue> keys_;
};

}  // namespace forestall::rebalance
