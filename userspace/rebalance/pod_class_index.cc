// SPDX-License-Identifier: Apache-2.0
#include "rebalance/pod_class_index.h"

#include <algorithm>

namespace forestall::rebalance {

std::size_t PodClassIndex::SameClass::operator()(std::size_t index) const {
  const ClusterPod& pod = snapshot->pods[index];
  std::size_t hash = 0;
  const auto add = [&hash](const void* address) {
    constexpr std::size_t kOdd = 0x9e3779b97f4a7c15;
    hash = (hash ^ reinterpret_cast<std::size_t>(address)) * kOdd;
    hash ^= hash >> 32U;
  };
  add(pod.placement.get());
  add(pod.pod_namespace.data());
  for (const auto& [key, value] : pod.labels) add(value.data());
  return hash;
}

bool PodClassIndex::SameClass::operator()(std::size_t a, std::size_t b) const {
  const ClusterPod& one = snapshot->pods[a];
  const ClusterPod& other = snapshot->pods[b];
  const auto same = [](std::string_view x, std::string_view y) {
    return x.data() == y.data() && x.size() == y.size();
  };
  return one.placement == other.placement && same(one.pod_namespace, other.pod_namespace) &&
         std::ranges::equal(one.labels, other.labels,
                            [&](const auto& x, const auto& y) {
                              return same(x.first, y.first) && same(x.second, y.second);
                            }) &&
         std::ranges::equal(one.tolerations, other.tolerations,
                            [&](const PodToleration& x, const PodToleration& y) {
                              return same(x.key, y.key) && same(x.value, y.value) && x.op == y.op &&
                                     x.effect == y.effect;
                            });
}

PodClassIndex::PodClassIndex(const Snapshot& snapshot)
    : known_(snapshot.pods.size(), kUnknown),
      classes_(0, SameClass{&snapshot}, SameClass{&snapshot}) {}

PodClassId PodClassIndex::intern(std::size_t pod) {
  // The pods of a workload mostly stand together.
  if (pod > 0 && known_[pod - 1] != kUnknown && classes_.key_eq()(pod, pod - 1)) {
    return known_[pod - 1];
  }
  const auto next = static_cast<PodClassId>(classes_.size());
  return classes_.try_emplace(pod, next).first->second;
}

}  // namespace forestall::rebalance
