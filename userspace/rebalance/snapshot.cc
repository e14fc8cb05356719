// SPDX-License-Identifier: Apache-2.0
#include "rebalance/snapshot.h"

#include <algorithm>
#include <tuple>

#include "base/parse.h"

namespace forestall::rebalance {

namespace {

// apimachinery's IsDecimalInteger(): no sign but a minus, and no zero in front.
std::optional<std::int64_t> decimal_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return std::nullopt;
  if (digits.front() == '0' && text != "0") return std::nullopt;
  return parse_i64(text);
}

bool tolerates_value(const PodToleration& toleration, std::string_view value) {
  switch (toleration.op) {
    case TolerationOperator::equal: return toleration.value == value;
    case TolerationOperator::exists: return true;
    case TolerationOperator::unknown: return false;
    case TolerationOperator::greater:
    case TolerationOperator::less: break;
  }
  const auto limit = decimal_integer(toleration.value);
  const auto number = decimal_integer(value);
  if (!limit || !number) return false;
  return toleration.op == TolerationOperator::greater ? *number > *limit : *number < *limit;
}

}  // namespace

bool tolerates(const PodToleration& toleration, const Taint& taint) {
  if (toleration.effect && *toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  return tolerates_value(toleration, taint.value);
}

bool leaves_soon(const ClusterPod& pod, std::int64_t now_ns) {
  if (!pod.terminating || !pod.deleted_ns) return false;
  const Nanos age = Nanos{now_ns} - *pod.deleted_ns;
  constexpr Nanos kLongest = Nanos{kLeavingSeconds} * kNanosPerUnit;
  return age <= kLongest && age >= -kLongest;
}

std::optional<Nanos> measured(const MetricsSample& sample, std::string_view resource) {
  const Amount* const found = sample.usage.find(resource);
  const bool is_partial = std::ranges::find(sample.incomplete, resource) != sample.incomplete.end();
  return found == nullptr || is_partial ? std::nullopt : std::optional(found->nanos);
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
