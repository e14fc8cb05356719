// SPDX-License-Identifier: Apache-2.0
// Pods beyond a limit on local storage (pkg/kubelet/eviction/eviction_manager.go
// localStorageEviction). Independent of thresholds, and not limited to one pod.
//
// For every active pod with statistics, the first of these that applies; all comparisons are
// strict:
// 1. An emptyDir with a sizeLimit above 0, on any medium, uses more than that.
// 2. The pod has an ephemeral-storage limit, and all its ephemeral storage is more than that.
// 3. A regular container with an ephemeral-storage limit other than 0 has more in its logs, plus
// its writable layer if that and images are on nodefs. An unknown layout counts as that, as on most
// nodes.
//
// Such an eviction has no annotations and sets no DisruptionTarget condition. It has the grace of a
// hard eviction, currently 1 s.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/exclusion.h"

namespace forestall::policy {

// Appends to `considered` every pod beyond a limit, ordered by path, and to `evictions` one for
// each of them that may be killed. Appends nothing if Config::local_storage_isolation is off or the
// workloads were not read; pods without statistics are skipped.
void storage_limit_evictions(const Config& config, const Observation& observation,
                             const Exclusions& exclusions, std::vector<Candidate>& considered,
                             std::vector<Eviction>& evictions);

}  // namespace forestall::policy
