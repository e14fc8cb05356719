// SPDX-License-Identifier: Apache-2.0
// What a whole pod requests, and what it is limited to, from the declarations of its parts
// (kubelet.md §5.2; pkg/api/v1/resource/helpers.go GetResourceRequestQuantity,
// staging/src/k8s.io/component-helpers/resource/helpers.go AggregateContainerRequests, PodLimits).
//
// Init containers run one after the other, before the regular ones; sidecars (init containers that
// are restartable) keep running from their turn on. So the containers together need the larger of
//   - the sum of all regular containers and sidecars;
//   - for each init container: itself and the sidecars before it.
#pragma once

#include <optional>

#include "model/pod.h"

namespace forestall::policy {

// Which of the resources of a list: &ResourceList::memory.
using Amount = std::optional<Quantity> ResourceList::*;

// Whether the pod has resources of its own (pod-level resources). Only cpu and memory can be given
// there; a list with neither counts as absent (IsPodLevelResourcesSet, IsPodLevelRequestsSet).
[[nodiscard]] bool has_pod_level_resources(const Pod& pod);
[[nodiscard]] bool has_pod_level_requests(const Pod& pod);

// What the containers request together, without overhead and without the pod's own resources.
[[nodiscard]] std::optional<Quantity> container_requests(const Pod& pod, Amount amount);

// The request that eviction compares usage with. A pod with resources of its own requests just
// those, and so no ephemeral storage. The pod's overhead comes on top of a request that is not
// zero. Nothing when nothing is declared; it then counts as 0, with kubelet.
[[nodiscard]] std::optional<Quantity> pod_request(const Pod& pod, Amount amount);

// The limit: the same aggregation over the limits that are declared (a container without one adds
// nothing). A limit of the pod's own replaces that of the containers, for cpu and memory.
[[nodiscard]] std::optional<Quantity> pod_limit(const Pod& pod, Amount amount);

// All resources at once.
[[nodiscard]] ResourceList pod_requests(const Pod& pod);
[[nodiscard]] ResourceList pod_limits(const Pod& pod);

}  // namespace forestall::policy
