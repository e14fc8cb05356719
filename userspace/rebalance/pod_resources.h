// SPDX-License-Identifier: Apache-2.0
// The request and the QoS class of a pod from its containers, as the descheduler computes them.
// They cover every resource; policy/pod_requests.h has those that the kubelet evicts by.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/pod.h"
#include "rebalance/amounts.h"

namespace forestall::rebalance {

struct ContainerResources {
  Amounts requests;
  Amounts limits;
  bool restartable = false;  // an init container with restartPolicy Always: a sidecar
};

struct PodResources {
  std::vector<ContainerResources> containers;
  std::vector<ContainerResources> init_containers;  // in order, sidecars included
  Amounts overhead;
  std::optional<Amounts> pod_requests;  // spec.resources.requests
};

// Per resource: what the containers and sidecars need together, or what one init container needs
// beside the sidecars that start before it, whichever is more, and the overhead. Requests of the
// pod replace those of its containers for cpu, memory and huge pages.
// component-helpers/resource/helpers.go PodRequests().
[[nodiscard]] Amounts pod_request(const PodResources& pod);

// pkg/apis/core/v1/helper/qos GetPodQOS(): only positive amounts of cpu and memory count.
[[nodiscard]] QosClass qos_class(const PodResources& pod);

// Resources that a container or an init container requests, even if with 0.
[[nodiscard]] std::vector<std::string_view> requested_resources(const PodResources& pod);

}  // namespace forestall::rebalance
