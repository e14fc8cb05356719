// SPDX-License-Identifier: Apache-2.0
#include "descheduler/repeated_objects.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace forestall::descheduler {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // namespace, name

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    constexpr std::size_t kOdd = 0x9e3779b97f4a7c15;
    const std::hash<std::string_view> hash;
    return hash(key.first) * kOdd + hash(key.second);
  }
};

template <typename Object>
Key key_of(const Object& object) {
  if constexpr (requires { object.pod_namespace; }) return {object.pod_namespace, object.name};
  return {"", object.name};
}

template <typename Object>
void keep_last(std::vector<Object>& objects) {
  std::unordered_set<Key, KeyHash> known;
  known.reserve(objects.size());
  std::vector<bool> repeated(objects.size());
  bool any = false;
  for (std::size_t i = objects.size(); i-- > 0;) {
    if (known.insert(key_of(objects[i])).second) continue;
    repeated[i] = any = true;
  }
  if (!any) return;
  std::size_t index = 0;
  std::erase_if(objects, [&](const Object&) { return repeated[index++]; });
}

}  // namespace

void drop_repeated(rebalance::Snapshot& snapshot) {
  keep_last(snapshot.nodes);
  keep_last(snapshot.pods);
  keep_last(snapshot.namespaces);
  keep_last(snapshot.budgets);
  keep_last(snapshot.claims);
  keep_last(snapshot.volumes);
  keep_last(snapshot.priority_classes);
}

}  // namespace forestall::descheduler
