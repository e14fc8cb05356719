// SPDX-License-Identifier: Apache-2.0
// Aggregation over the containers of a pod, per resource, because ranking needs only one.
#include "policy/pod_requests.h"

#include "policy/quantity_sum.h"

namespace forestall::policy {
namespace {

using Declared = std::optional<Quantity>;
using Resources = ResourceList PodContainer::*;

void raise(Declared& highest, const Declared& other) {
  if (other && (!highest || *other > *highest)) highest = other;
}

Declared aggregate(const Pod& pod, Resources resources, ResourceField amount) {
  Declared together;
  for (const PodContainer& each : pod.containers) accumulate(together, each.*resources.*amount);
  Declared sidecars;
  Declared peak;
  for (const PodContainer& each : pod.init_containers) {
    const Declared& own = each.*resources.*amount;
    if (each.restartable) {
      accumulate(together, own);
      accumulate(sidecars, own);  // covered by `together` at the end
    } else {
      Declared while_it_runs = own;
      accumulate(while_it_runs, sidecars);
      raise(peak, while_it_runs);
    }
  }
  raise(together, peak);
  return together;
}

bool declares_supported(const std::optional<ResourceList>& list) {
  return list && (list->cpu || list->memory);
}

bool supported(ResourceField amount) {
  return amount != &ResourceList::ephemeral_storage;
}

Declared with_overhead(Declared amount, const Declared& overhead) {
  if (amount && amount->nanos != 0) accumulate(amount, overhead);
  return amount;
}

}  // namespace

bool has_pod_level_requests(const Pod& pod) {
  return declares_supported(pod.requests);
}

bool has_pod_level_resources(const Pod& pod) {
  return has_pod_level_requests(pod) || declares_supported(pod.limits);
}

Declared container_requests(const Pod& pod, ResourceField amount) {
  return aggregate(pod, &PodContainer::requests, amount);
}

Declared pod_request(const Pod& pod, ResourceField amount) {
  Declared request;
  if (!has_pod_level_resources(pod)) {
    request = container_requests(pod, amount);
  } else if (pod.requests && supported(amount)) {
    request = (*pod.requests).*amount;
  }
  return with_overhead(request, pod.overhead.*amount);
}

Declared pod_limit(const Pod& pod, ResourceField amount) {
  Declared limit = aggregate(pod, &PodContainer::limits, amount);
  if (pod.limits && supported(amount) && (*pod.limits).*amount) limit = (*pod.limits).*amount;
  return with_overhead(limit, pod.overhead.*amount);
}

ResourceList pod_requests(const Pod& pod) {
  return {.cpu = pod_request(pod, &ResourceList::cpu),
          .memory = pod_request(pod, &ResourceList::memory),
          .ephemeral_storage = pod_request(pod, &ResourceList::ephemeral_storage)};
}

ResourceList pod_limits(const Pod& pod) {
  return {.cpu = pod_limit(pod, &ResourceList::cpu),
          .memory = pod_limit(pod, &ResourceList::memory),
          .ephemeral_storage = pod_limit(pod, &ResourceList::ephemeral_storage)};
}

}  // namespace forestall::policy
