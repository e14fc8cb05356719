// SPDX-License-Identifier: Apache-2.0
// The requests and limits of a whole pod, from the declarations of its parts
// (pkg/api/v1/resource/helpers.go GetResourceRequestQuantity,
// staging/src/k8s.io/component-helpers/resource/helpers.go AggregateContainerRequests, PodLimits).
//
// Init containers run one after the other, before the regular ones; sidecars (restartable init
// containers) keep running once started. The containers together therefore need the larger of
// - the sum of all regular containers and sidecars;
// - for each init container: itself and the sidecars before it.
#pragma once

#include <optional>

#include "model/pod.h"

namespace forestall::policy {

// A member of ResourceList: &ResourceList::memory.
using ResourceField = std::optional<Quantity> ResourceList::*;

// Whether the pod has pod-level resources. These can have only cpu and memory; a list with neither
// counts as absent (IsPodLevelResourcesSet, IsPodLevelRequestsSet).
[[nodiscard]] bool has_pod_level_resources(const Pod& pod);
[[nodiscard]] bool has_pod_level_requests(const Pod& pod);

// The sum of the containers' requests, without overhead and pod-level resources.
[[nodiscard]] std::optional<Quantity> container_requests(const Pod& pod, ResourceField amount);

// The request that eviction compares usage with. Pod-level resources replace those of the
// containers, so such a pod requests no ephemeral storage. The pod's overhead is added to a request
// that is not zero. Nullopt if nothing is declared; kubelet counts that as 0.
[[nodiscard]] std::optional<Quantity> pod_request(const Pod& pod, ResourceField amount);

// The limit: the same aggregation over the declared limits (a container without one adds nothing).
// A pod-level limit replaces that of the containers, for cpu and memory.
[[nodiscard]] std::optional<Quantity> pod_limit(const Pod& pod, ResourceField amount);

// All resources at once.
[[nodiscard]] ResourceList pod_requests(const Pod& pod);
[[nodiscard]] ResourceList pod_limits(const Pod& pod);

}  // namespace forestall::policy
