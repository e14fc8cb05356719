// SPDX-License-Identifier: Apache-2.0
// Pods beyond a limit on local storage (kubelet.md §6; pkg/kubelet/eviction/eviction_manager.go
// localStorageEviction). Independent of thresholds, and not limited to one pod.
//
// For every active pod with statistics the first of these that holds, each of them strictly:
// 1. An emptyDir with a sizeLimit above 0, on whatever medium, uses more than that.
// 2. The pod has an ephemeral-storage limit, and all its ephemeral storage is more than that.
// 3. A regular container with an ephemeral-storage limit other than 0 has more in its logs, and in
//    its writable layer where that lies on nodefs as images do. In a layout that is not known yet
//    it counts as lying there, as on most nodes.
//
// Such an eviction has no annotations and sets no DisruptionTarget condition. It has the grace of
// a hard eviction, 1 s today.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/exclusion.h"

namespace forestall::policy {

// Appends to `considered` every pod beyond a limit, ordered by path, and to `evictions` one for
// each of them that may be killed. Appends nothing when Config::local_storage_isolation is off or
// the workloads were not read; a pod whose statistics were not read is passed over.
void storage_limit_evictions(const Config& config, const Observation& observation,
                             const Exclusions& exclusions, std::vector<Candidate>& considered,
                             std::vector<Eviction>& evictions);

}  // namespace forestall::policy
