// SPDX-License-Identifier: Apache-2.0
// Who is never killed.
#pragma once

#include <string_view>
#include <vector>

#include "model/workload.h"

namespace forestall::policy {

// Priorities from here on are system-critical (pkg/apis/scheduling/types.go SystemCriticalPriority,
// pkg/kubelet/types/pod_update.go IsCriticalPod).
inline constexpr std::int32_t kCriticalPriority = 2'000'000'000;

// Why `workload` itself is protected: what was found out about it, else its pod's origin (static
// and mirror pods), else its priority.
[[nodiscard]] Protection protection_of(const Workload& workload);

// Protection among nested workloads. Killing a cgroup kills all below it, so a workload is also
// spared when a protected one lives inside it; and what an operator or Kubernetes protects, it
// protects with all of its parts. (Being the home of the agent or of pid 1 does not extend
// downwards: a sibling below the same slice is fair game.)
class ProtectedPaths {
 public:
  // `workloads` must outlive the object.
  explicit ProtectedPaths(const std::vector<WorkloadSample>& workloads);

  [[nodiscard]] bool spares(const Workload& workload) const;

 private:
  std::vector<std::string_view> around_;  // ancestors of protected workloads; sorted
  std::vector<std::string_view> whole_;   // workloads protected with all their parts; sorted
};

// The parent of a cgroup path; empty for "/" (and for what is not a path).
[[nodiscard]] std::string_view parent_path(std::string_view path);

}  // namespace forestall::policy
