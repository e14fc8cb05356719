// SPDX-License-Identifier: Apache-2.0
#include "rebalance/label_index.h"

#include <algorithm>

namespace forestall::rebalance {

std::vector<PodIndex> LabelIndex::matching(const LabelSelector& selector) {
  const auto listed = std::find_if(selector.requirements.begin(), selector.requirements.end(),
                                   [](const Requirement& each) { return each.op == Operator::in; });
  std::vector<PodIndex> found;
  if (listed == selector.requirements.end()) {
    found = pods_;
  } else {
    const PodsByValue& pods = by_value(listed->key);
    for (const std::string& value : listed->values) {
      const auto with_value = pods.find(value);
      if (with_value == pods.end()) continue;
      found.insert(found.end(), with_value->second.begin(), with_value->second.end());
    }
    std::sort(found.begin(), found.end());
    // A value may be listed twice.
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  std::erase_if(found, [&](PodIndex each) { return !matches(selector, view_.pod(each).labels); });
  return found;
}

const LabelIndex::PodsByValue& LabelIndex::by_value(const std::string& key) {
  const auto [known, is_new] = keys_.try_emplace(key);
  if (!is_new) return known->second;
  for (const PodIndex each : pods_) {
    if (const auto value = find_label(view_.pod(each).labels, key)) {
      known->second[*value].push_back(each);
    }
  }
  return known->second;
}

}  // namespace forestall::rebalance
