// SPDX-License-Identifier: Apache-2.0
// QoS class from sums of requests and limits.
#include "policy/qos.h"

#include <optional>

#include "policy/pod_requests.h"
#include "policy/quantity_sum.h"

namespace forestall::policy {
namespace {

using Declared = std::optional<Quantity>;

Declared positive(const Declared& amount) {
  return amount && amount->nanos > 0 ? amount : Declared{};
}

struct CpuAndMemory {
  Declared cpu;
  Declared memory;

  void add(const ResourceList& list) {
    accumulate(cpu, positive(list.cpu));
    accumulate(memory, positive(list.memory));
  }
  [[nodiscard]] bool none() const { return !cpu && !memory; }
  friend bool operator==(const CpuAndMemory&, const CpuAndMemory&) = default;
};

struct Totals {
  CpuAndMemory requests;
  CpuAndMemory limits;
  bool all_limited = true;  // every part limits both cpu and memory

  void add(const ResourceList& part_requests, const ResourceList& part_limits) {
    requests.add(part_requests);
    limits.add(part_limits);
    all_limited = all_limited && positive(part_limits.cpu) && positive(part_limits.memory);
  }

  [[nodiscard]] QosClass qos() const {
    if (requests.none() && limits.none()) return QosClass::best_effort;
    return all_limited && requests == limits ? QosClass::guaranteed : QosClass::burstable;
  }
};

}  // namespace

QosClass qos_class(const Pod& pod) {
  if (pod.status_qos) return *pod.status_qos;
  Totals totals;
  if (has_pod_level_resources(pod)) {
    totals.add(pod.requests.value_or(ResourceList{}), pod.limits.value_or(ResourceList{}));
    return totals.qos();
  }
  for (const PodContainer& each : pod.containers) totals.add(each.requests, each.limits);
  for (const PodContainer& each : pod.init_containers) totals.add(each.requests, each.limits);
  return totals.qos();
}

}  // namespace forestall::policy
