// SPDX-License-Identifier: Apache-2.0
#include "rebalance/snapshot.h"

#include <algorithm>
#include <tuple>

namespace forestall::rebalance {

bool tolerates(const PodToleration& toleration, const Taint& taint) {
  if (!toleration.valid) return false;
  if (toleration.effect && *toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  return toleration.exists || toleration.value == taint.value;
}

bool leaves_soon(const ClusterPod& pod, std::int64_t now_ns) {
  if (!pod.terminating || !pod.deleted_ns) return false;
  const Nanos age = Nanos{now_ns} - *pod.deleted_ns;
  constexpr Nanos kLongest = Nanos{kLeavingSeconds} * kNanosPerUnit;
  return age <= kLongest && age >= -kLongest;
}

void sort(Snapshot& snapshot) {
  std::sort(snapshot.nodes.begin(), snapshot.nodes.end(),
            [](const Node& a, const Node& b) { return a.name < b.name; });
  std::sort(
      snapshot.pods.begin(), snapshot.pods.end(), [](const ClusterPod& a, const ClusterPod& b) {
        return std::tie(a.pod_namespace, a.name, a.uid) < std::tie(b.pod_namespace, b.name, b.uid);
      });
  std::sort(snapshot.budgets.begin(), snapshot.budgets.end(),
            [](const DisruptionBudget& a, const DisruptionBudget& b) {
              return std::tie(a.pod_namespace, a.name) < std::tie(b.pod_namespace, b.name);
            });
  std::stable_sort(snapshot.reports.begin(), snapshot.reports.end(),
                   [](const NodeReport& a, const NodeReport& b) {
                     return std::tie(a.node, a.time_ns) < std::tie(b.node, b.time_ns);
                   });
}

}  // namespace forestall::rebalance
