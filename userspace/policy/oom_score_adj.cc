// SPDX-License-Identifier: Apache-2.0
// oom_score_adj in int64 arithmetic, as in Go: it wraps on overflow, and in kubelet a request of
// more than 2^63 / 1000 bytes (8 PiB) does overflow.
#include "policy/oom_score_adj.h"

#include <algorithm>
#include <optional>

#include "policy/pod_facts.h"
#include "policy/pod_requests.h"
#include "policy/qos.h"

namespace forestall::policy {
namespace {

constexpr std::string_view kNodeCriticalClass = "system-node-critical";

std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  (void)__builtin_add_overflow(a, b, &result);  // `result` has the wrapped value
  return result;
}

std::int64_t wrapping_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  (void)__builtin_sub_overflow(a, b, &result);
  return result;
}

std::int64_t per_mille(std::int64_t request, Bytes capacity) {
  if (capacity <= Bytes{0}) return 0;
  std::int64_t product = 0;
  (void)__builtin_mul_overflow(std::int64_t{1000}, request, &product);
  return product / capacity.count;
}

std::int64_t value_of(const std::optional<Quantity>& amount) {
  return amount ? amount->value() : 0;
}

// remainingPodMemReqPerContainer. Negative if the containers request more than the pod. The API
// server refuses that; kubelet does not check it.
std::int64_t share_of_pod_request(const Pod& pod) {
  if (!has_pod_level_requests(pod) || !pod.requests->memory) return 0;
  const std::int64_t own = pod.requests->memory->value();
  const auto count = static_cast<std::int64_t>(pod.containers.size() + pod.init_containers.size());
  if (own == 0 || count == 0) return 0;
  const auto in_containers = value_of(container_requests(pod, &ResourceList::memory));
  return wrapping_subtract(own, in_containers) / count;
}

bool is_sidecar(const Pod& pod, const PodContainer& container) {
  return container.restartable &&
         std::any_of(pod.init_containers.begin(), pod.init_containers.end(),
                     [&](const PodContainer& each) { return each.name == container.name; });
}

std::optional<std::int64_t> smallest_regular_request(const Pod& pod) {
  std::optional<std::int64_t> smallest;
  for (const PodContainer& each : pod.containers) {
    const auto request = value_of(each.requests.memory);
    smallest = std::min(smallest.value_or(request), request);
  }
  return smallest;
}

std::int64_t burstable(const Pod& pod, const PodContainer& container, Bytes capacity) {
  const std::int64_t share = share_of_pod_request(pod);
  const auto score = [&](std::int64_t request) {
    return 1000 - per_mille(wrapping_add(request, share), capacity);
  };
  std::int64_t adj = score(value_of(container.requests.memory));
  if (is_sidecar(pod, container)) {
    if (const auto smallest = smallest_regular_request(pod)) adj = std::min(adj, score(*smallest));
  }
  if (adj < kLowestBurstable) return kLowestBurstable;
  return adj == kBestEffortOomScoreAdj ? adj - 1 : adj;
}

}  // namespace

std::int64_t oom_score_adj(const Pod& pod, const PodContainer& container, Bytes capacity) {
  if (is_critical(pod) && pod.priority_class == kNodeCriticalClass) return kGuaranteedOomScoreAdj;
  switch (qos_class(pod)) {
    case QosClass::guaranteed: return kGuaranteedOomScoreAdj;
    case QosClass::best_effort: return kBestEffortOomScoreAdj;
    case QosClass::burstable: break;
  }
  return burstable(pod, container, capacity);
}

}  // namespace forestall::policy
