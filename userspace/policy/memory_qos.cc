// SPDX-License-Identifier: Apache-2.0
#include "policy/memory_qos.h"

#include <algorithm>

#include "policy/pod_facts.h"
#include "policy/pod_requests.h"
#include "policy/qos.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

constexpr int kTieredSince = 36;      // memoryReservationPolicy
constexpr int kNewFormulaSince = 27;  // between request and limit, in whole pages
constexpr int kBetaSince = 37;        // BestEffort is throttled; a disabled gate resets

std::int64_t bytes_or_zero(const std::optional<Quantity>& amount) {
  return amount ? amount->value() : 0;
}

std::optional<std::int64_t> if_positive(std::int64_t bytes) {
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

// As Go converts a double of at least 0, but without overflow.
std::int64_t to_bytes(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  return value >= kLimit ? std::numeric_limits<std::int64_t>::max()
                         : static_cast<std::int64_t>(value);
}

// Whole pages of `bytes`, of which a fraction is dropped first.
std::int64_t in_pages(double bytes, std::int64_t page) {
  const auto whole = static_cast<double>(to_bytes(bytes));
  const std::int64_t pages = to_bytes(whole / static_cast<double>(page));
  return std::min(pages, std::numeric_limits<std::int64_t>::max() / page) * page;
}

MemoryProtection container_protection(QosClass qos, std::int64_t request,
                                      const MemoryQosSettings& settings) {
  if (settings.kubelet_minor < kTieredSince) return {if_positive(request), std::nullopt};
  if (settings.reservation == MemoryReservation::none) return {0, 0};
  switch (qos) {
    case QosClass::guaranteed: return {request, 0};
    case QosClass::burstable: return {0, request};
    case QosClass::best_effort: break;
  }
  return {0, 0};
}

MemoryProtection pod_protection(QosClass qos, std::int64_t request,
                                const MemoryQosSettings& settings) {
  if (settings.kubelet_minor < kTieredSince) return {if_positive(request), std::nullopt};
  if (qos == QosClass::best_effort) return {};
  if (settings.reservation == MemoryReservation::none) return {0, 0};
  if (qos == QosClass::guaranteed) return {request, std::nullopt};
  return {std::nullopt, request};
}

ContainerMemoryQos container_memory_qos(QosClass qos, const PodContainer& container,
                                        const MemoryQosSettings& settings) {
  const std::int64_t request = bytes_or_zero(container.requests.memory);
  const std::int64_t limit = bytes_or_zero(container.limits.memory);
  return {container.name, container_protection(qos, request, settings),
          memory_high(request, limit, settings)};
}

// Bytes that pods of a class request.
struct PodSums {
  std::int64_t guaranteed = 0;
  std::int64_t burstable = 0;
};

void add_pod(const Pod& pod, PodSums& sums) {
  if (!is_active(pod)) return;
  const QosClass qos = qos_class(pod);
  if (qos == QosClass::best_effort) return;
  std::int64_t& sum = qos == QosClass::guaranteed ? sums.guaranteed : sums.burstable;
  sum = add({sum}, {bytes_or_zero(pod_request(pod, &ResourceList::memory))}).count;
}

MemoryQosLevels levels_of(const PodSums& sums, const MemoryQosSettings& settings) {
  if (!settings.enabled) {
    if (settings.kubelet_minor < kBetaSince) return {};
    return {{std::nullopt, 0}, 0};
  }
  const std::int64_t all = add({sums.guaranteed}, {sums.burstable}).count;
  if (settings.kubelet_minor < kTieredSince) {
    return {{if_positive(sums.burstable), std::nullopt}, if_positive(all)};
  }
  if (settings.reservation == MemoryReservation::none) return {{std::nullopt, 0}, 0};
  return {{std::nullopt, sums.burstable}, all};
}

}  // namespace

std::optional<std::int64_t> memory_high(std::int64_t request, std::int64_t limit,
                                        const MemoryQosSettings& settings) {
  if (!settings.throttling_factor) return std::nullopt;
  const std::int64_t ceiling = limit != 0 ? limit : settings.node_allocatable;
  if (ceiling <= 0) return std::nullopt;
  const double factor = *settings.throttling_factor;
  std::int64_t high = 0;
  if (settings.kubelet_minor < kNewFormulaSince) {
    high = to_bytes(static_cast<double>(ceiling) * factor);
  } else {
    const bool unlimited_is_equal = settings.kubelet_minor < kBetaSince;
    if (request == limit && (request != 0 || unlimited_is_equal)) return std::nullopt;
    const auto from = static_cast<double>(request);
    const double between = (static_cast<double>(ceiling) - from) * factor;
    high = in_pages(from + between, settings.page_size);
  }
  return high > request ? std::optional(high) : std::nullopt;
}

PodMemoryQos memory_qos(const Pod& pod, const MemoryQosSettings& settings) {
  PodMemoryQos out;
  out.qos = qos_class(pod);
  out.active = is_active(pod);
  const auto value_of = [&](const PodContainer& container) -> ContainerMemoryQos {
    if (!out.active) return {container.name, {}, std::nullopt};
    if (settings.enabled) return container_memory_qos(out.qos, container, settings);
    // A resize or a restart lifts what the enabled gate wrote.
    const bool resets = settings.kubelet_minor >= kBetaSince;
    return {container.name, {}, resets ? std::optional(kNoThrottling) : std::nullopt};
  };
  for (const PodContainer& each : pod.containers) out.containers.push_back(value_of(each));
  for (const PodContainer& each : pod.init_containers) {
    out.init_containers.push_back(value_of(each));
  }
  if (out.active && settings.enabled) {
    const std::int64_t request = bytes_or_zero(pod_request(pod, &ResourceList::memory));
    out.protection = pod_protection(out.qos, request, settings);
  }
  return out;
}

MemoryQosLevels memory_qos_levels(std::span<const Pod> pods, const MemoryQosSettings& settings) {
  PodSums sums;
  if (settings.enabled) {
    for (const Pod& each : pods) add_pod(each, sums);
  }
  return levels_of(sums, settings);
}

MemoryQosLevels memory_qos_levels(std::span<const std::shared_ptr<const Pod>> pods,
                                  const MemoryQosSettings& settings) {
  PodSums sums;
  if (settings.enabled) {
    for (const auto& each : pods) add_pod(*each, sums);
  }
  return levels_of(sums, settings);
}

}  // namespace forestall::policy
