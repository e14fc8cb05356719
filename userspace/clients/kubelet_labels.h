// SPDX-License-Identifier: Apache-2.0
// Labels that kubelet sets on its sandboxes and containers (pkg/kubelet/types/labels.go).
#pragma once

namespace forestall::clients {

inline constexpr const char* kPodUidLabel = "io.kubernetes.pod.uid";
inline constexpr const char* kContainerNameLabel = "io.kubernetes.container.name";

}  // namespace forestall::clients
