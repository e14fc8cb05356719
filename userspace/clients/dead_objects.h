// SPDX-License-Identifier: Apache-2.0
// Which containers and sandboxes of the runtime may be removed.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "runtime/v1/api.pb.h"

namespace forestall::clients {

struct DeadObjects {
  std::vector<std::string> containers;
  std::vector<std::string> sandboxes;
};

// UIDs of the pods that exist.
using PodUids = std::unordered_set<std::string>;

// The pods that have a directory in `pods_directory` (kubelet's <root>/pods). Kubelet creates it
// before the first sandbox and removes it after the pod was deleted; a pod that has completed keeps
// it. Nothing for an empty `pods_directory`, and an error if it cannot be read.
[[nodiscard]] Result<std::optional<PodUids>> pods_with_directory(const std::string& pods_directory);

// Objects that kubelet would also remove under disk pressure, in the order of the lists
// (pkg/kubelet/kuberuntime/kuberuntime_gc.go, with MaxPerPodContainer 1):
// - all of a pod that is gone: kubelet set its UID as a label, `present` does not contain it, and
//   nothing of it runs;
// - of each container of other pods, every dead instance but the newest. With restartPolicy Never
//   or OnFailure kubelet would otherwise run it again, and `kubectl logs --previous` reads it;
// - of other pods, every sandbox that is not ready and contains nothing, but the newest.
// No pod counts as gone without `present`, or if `present` contains no pod with a ready sandbox: it
// then describes another node, or a root directory that kubelet does not use.
// REQUIRES: `present` was read after both lists, which a new pod may otherwise have missed.
[[nodiscard]] DeadObjects dead_objects(const ::runtime::v1::ListPodSandboxResponse& sandboxes,
                                       const ::runtime::v1::ListContainersResponse& containers,
                                       const std::optional<PodUids>& present);

}  // namespace forestall::clients
