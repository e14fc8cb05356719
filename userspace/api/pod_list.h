// SPDX-License-Identifier: Apache-2.0
// Pods as Kubernetes prints them: `kubectl get pods -o json` (kind List), the API server's and
// kubelet's own /pods (kind PodList), or one object of kind Pod.
//
// Taken as it is: what the API server fills in when it admits a pod (a request where only a limit
// was given, priority, qosClass) is there in what it prints, and is not filled in here. Unknown
// keys are passed over, because there is a newer Kubernetes every four months; keys that are read
// must hold what the API allows.
//
// Where a running container was resized in place, its requests are those that kubelet allocated
// (status.containerStatuses[].allocatedResources), because kubelet ranks by these
// (pkg/kubelet/allocation UpdatePodFromAllocation).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/pod.h"

namespace forestall::api {

// A pod, and the node it is bound to.
struct ListedPod {
  Pod pod;
  std::string node;  // spec.nodeName; empty: none yet, or not told

  friend bool operator==(const ListedPod&, const ListedPod&) = default;
};

// The pods in the order of the list. The first mistake is the error, by its place:
// "items[3] (default/web-0): spec.containers[0].resources.requests.memory: quantities must match…"
// or, if it is no JSON at all, LINE:COLUMN. A missing UID, name or container name and a UID that
// comes twice are mistakes.
[[nodiscard]] Result<std::vector<ListedPod>> parse_listed_pods(std::string_view json);

// The same without the nodes.
[[nodiscard]] Result<std::vector<Pod>> parse_pod_list(std::string_view json);

}  // namespace forestall::api
