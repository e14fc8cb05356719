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
  const bool is_all = listed != selector.requirements.end() && selector.requirements.size() == 1;
  if (is_all) return found;
  std::erase_if(found, [&](PodIndex each) { return !matches(selector, view_.pod(each).labels); });
  return found;
}

const LabelIndex::PodsByValue& LabelIndex::by_value(const std::string& key) {
  const auto [known, is_new] = keys_.try_emplace(key);
  if (!is_new) return known->second;
  std::string_view last;  // value: pods of a workload mostly stand together
  std::vector<PodIndex>* with_last = nullptr;
  for (const PodIndex each : pods_) {
    const auto value = find_label(view_.pod(each).labels, key);
    if (!value) continue;
    const bool is_last = value->data() == last.data() && value->size() == last.size();
    if (with_last == nullptr || !is_last) with_last = &known->second[*value];
    last = *value;
    with_last->push_back(each);
  }
  return known->second;
}

}  // namespace forestall::rebalance
