// SPDX-License-Identifier: Apache-2.0
// What counts of the origin that a pod of the API server claims.
#pragma once

#include <string_view>
#include <vector>

#include "model/pod.h"

namespace forestall {

// The hash of a static pod's manifest, which names its cgroup (pkg/kubelet/config/common.go
// applyDefaults()): 32 digits. A UID of the API server has dashes, so no such hash names the cgroup
// of another pod.
[[nodiscard]] bool is_config_hash(std::string_view text);
// Whether it has the form of the UIDs that the API server gives to pods.
[[nodiscard]] bool is_api_uid(std::string_view uid);

// The facts that a pod of the API server amounts to: of itself, then of the static pod that it
// mirrors, if it does.
//
// The annotations that mark a mirror pod can be set by any tenant. A real mirror pod has no cgroup
// of its own UID, and the cgroup of the static pod has the hash as its UID. So the facts under the
// pod's UID are always those of an ordinary pod; a static pod is known under its hash only, where
// being static protects it whatever else the tenant wrote.
[[nodiscard]] std::vector<Pod> facts_of_api_pod(Pod pod);

}  // namespace forestall
