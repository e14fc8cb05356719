// SPDX-License-Identifier: Apache-2.0
#include "rebalance/pod_resources.h"

#include <algorithm>

namespace forestall::rebalance {
namespace {

constexpr std::string_view kHugePagesPrefix = "hugepages-";

bool at_pod_level(std::string_view resource) {
  return resource == kCpu || resource == kMemory || resource.starts_with(kHugePagesPrefix);
}

bool positive(const Amounts& amounts, std::string_view resource) {
  return amounts.of(resource) > 0;
}

// Whether the container has both limits, as GetPodQOS() requires for Guaranteed.
bool limits_both(const ContainerResources& container) {
  return positive(container.limits, kCpu) && positive(container.limits, kMemory);
}

}  // namespace

Amounts pod_request(const PodResources& pod) {
  Amounts total;
  for (const ContainerResources& each : pod.containers) total.add(each.requests);
  Amounts sidecars;
  Amounts while_starting;
  for (const ContainerResources& each : pod.init_containers) {
    if (each.restartable) {
      total.add(each.requests);
      sidecars.add(each.requests);
      while_starting.raise_to(sidecars);
    } else {
      Amounts together = sidecars;
      together.add(each.requests);
      while_starting.raise_to(together);
    }
  }
  total.raise_to(while_starting);
  if (pod.pod_requests) {
    for (const Amount& each : *pod.pod_requests) {
      if (at_pod_level(each.resource)) total.at(each.resource) = each.nanos;
    }
  }
  total.add(pod.overhead);
  return total;
}

QosClass qos_class(const PodResources& pod) {
  Amounts requests;
  Amounts limits;
  bool guaranteed = true;
  const auto count = [&](const ContainerResources& container) {
    for (const std::string_view resource : {kCpu, kMemory}) {
      if (positive(container.requests, resource)) {
        requests.at(resource) += container.requests.of(resource);
      }
      if (positive(container.limits, resource)) {
        limits.at(resource) += container.limits.of(resource);
      }
    }
    guaranteed = guaranteed && limits_both(container);
  };
  for (const ContainerResources& each : pod.containers) count(each);
  for (const ContainerResources& each : pod.init_containers) count(each);
  if (requests.empty() && limits.empty()) return QosClass::best_effort;
  const bool equal = requests.size() == limits.size() &&
                     std::all_of(requests.begin(), requests.end(), [&](const Amount& each) {
                       return limits.of(each.resource) == each.nanos;
                     });
  return guaranteed && equal ? QosClass::guaranteed : QosClass::burstable;
}

std::vector<std::string_view> requested_resources(const PodResources& pod) {
  std::vector<std::string_view> names;
  const auto add = [&](const ContainerResources& container) {
    for (const Amount& each : container.requests) {
      if (std::find(names.begin(), names.end(), each.resource) == names.end()) {
        names.push_back(each.resource);
      }
    }
  };
  for (const ContainerResources& each : pod.containers) add(each);
  for (const ContainerResources& each : pod.init_containers) add(each);
  return names;
}

}  // namespace forestall::rebalance
