// SPDX-License-Identifier: Apache-2.0
#include "cluster/fitted_pod.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "messages/convert.h"
#include "policy/quantity_sum.h"

namespace forestall::cluster {
namespace {

using policy::accumulate;

bool fits(const Pod& pod) {
  return pod.containers.size() <= kPartsMax && pod.init_containers.size() <= kPartsMax &&
         pod.volumes.size() <= kPartsMax && pod.tolerations.size() <= kPartsMax &&
         messages::to_proto(pod).ByteSizeLong() <= kPodBytesMax;
}

// The amounts of all containers of a pod together, for one resource, in requests or in limits.
struct Sums {
  std::optional<Quantity> regular;
  std::optional<Quantity> sidecars;
  std::optional<Quantity> peak;  // of the other init containers, each with the sidecars before it
};

Sums sums_of(const Pod& pod, ResourceList PodContainer::*list,
             std::optional<Quantity> ResourceList::*amount) {
  Sums sums;
  for (const PodContainer& each : pod.containers) accumulate(sums.regular, each.*list.*amount);
  for (const PodContainer& each : pod.init_containers) {
    if (each.restartable) {
      accumulate(sums.sidecars, each.*list.*amount);
      continue;
    }
    std::optional<Quantity> needs = each.*list.*amount;
    accumulate(needs, sums.sidecars);
    if (needs && (!sums.peak || *needs > *sums.peak)) sums.peak = needs;
  }
  return sums;
}

// One container in place of all of a kind. The first init container has the peak, so that it counts
// without the sidecars, which the second one has (policy/pod_requests.h).
void merge_containers(Pod& pod) {
  PodContainer regular{.name = "all", .id = {}, .requests = {}, .limits = {}};
  PodContainer first{.name = "init", .id = {}, .requests = {}, .limits = {}};
  PodContainer sidecars{
      .name = "sidecars", .id = {}, .requests = {}, .limits = {}, .restartable = true};
  for (const auto list : {&PodContainer::requests, &PodContainer::limits}) {
    for (const auto amount :
         {&ResourceList::cpu, &ResourceList::memory, &ResourceList::ephemeral_storage}) {
      const Sums sums = sums_of(pod, list, amount);
      regular.*list.*amount = sums.regular;
      first.*list.*amount = sums.peak;
      sidecars.*list.*amount = sums.sidecars;
    }
  }
  pod.containers = {std::move(regular)};
  pod.init_containers = {std::move(first), std::move(sidecars)};
}

void keep_empty_dirs(Pod& pod) {
  std::erase_if(pod.volumes,
                [](const PodVolume& each) { return each.kind != VolumeKind::empty_dir; });
}

}  // namespace

Fit fit(Pod& pod) {
  if (fits(pod)) return Fit::whole;
  constexpr std::array<void (*)(Pod&), 4> kSteps = {[](Pod& each) { each.tolerations.clear(); },
                                                    &keep_empty_dirs, &merge_containers,
                                                    [](Pod& each) { each.volumes.clear(); }};
  for (const auto step : kSteps) {
    step(pod);
    if (fits(pod)) return Fit::shortened;
  }
  return Fit::too_large;
}

}  // namespace forestall::cluster
