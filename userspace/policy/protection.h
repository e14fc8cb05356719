// SPDX-License-Identifier: Apache-2.0
// Workloads that are never killed.
#pragma once

#include <string_view>
#include <vector>

#include "model/workload.h"

namespace forestall::policy {

// Priorities from this value on are system-critical (pkg/apis/scheduling/types.go
// SystemCriticalPriority, pkg/kubelet/types/pod_update.go IsCriticalPod).
inline constexpr std::int32_t kCriticalPriority = 2'000'000'000;

// Whether `workload` is a pod whose priority neither Kubernetes nor an operator has declared.
[[nodiscard]] bool priority_unknown(const Workload& workload);

// Whether its priority is unknown and the node does not rule out system-node-critical. Kubelet
// gives such a pod the oom_score_adj of a Guaranteed one; 3 to 1000 are of other pods. A pod
// without a value that kubelet writes may be critical too. The node does not show whether a pod is
// system-cluster-critical: kubelet treats its oom_score_adj like any other pod's.
[[nodiscard]] bool may_be_critical(const Workload& workload);

// Why `workload` itself is protected: its own protection, otherwise its pod's origin (static and
// mirror pods), otherwise its priority, otherwise that it may be critical.
[[nodiscard]] Protection protection_of(const Workload& workload);

// Protection among nested workloads. A kill of a cgroup includes its descendants, so a workload is
// also spared if a protected one is inside it. Protection by an operator or by Kubernetes covers
// all parts of a workload. Protection because the agent or pid 1 is inside does not extend to
// descendants: siblings in the same slice may be killed.
class ProtectedPaths {
 public:
  // `workloads` must outlive the object.
  explicit ProtectedPaths(const std::vector<WorkloadSample>& workloads);

  [[nodiscard]] bool protects(const Workload& workload) const;

 private:
  std::vector<std::string_view> around_;  // ancestors of protected workloads; sorted
  std::vector<std::string_view> whole_;   // protected with all their parts; sorted
};

// The parent of a cgroup path; empty for "/" and for invalid paths.
[[nodiscard]] std::string_view parent_path(std::string_view path);

}  // namespace forestall::policy
