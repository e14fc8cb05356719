// SPDX-License-Identifier: Apache-2.0
// Protection by declaration, by priority and by nesting.
#include "policy/protection.h"

#include <algorithm>

#include "policy/oom_score_adj.h"

namespace forestall::policy {
namespace {

bool contains(const std::vector<std::string_view>& sorted, std::string_view path) {
  return std::binary_search(sorted.begin(), sorted.end(), path);
}

void sort_unique(std::vector<std::string_view>& paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
}

}  // namespace

std::string_view parent_path(std::string_view path) {
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos || path.size() < 2) return {};
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

bool priority_unknown(const Workload& workload) {
  return workload.inferred && !workload.priority;
}

bool may_be_critical(const Workload& workload) {
  if (!priority_unknown(workload)) return false;
  const auto& value = workload.inferred->oom_score_adj;
  return !value || *value < kLowestBurstable || *value > kBestEffortOomScoreAdj;
}

Protection protection_of(const Workload& workload) {
  if (workload.protection != Protection::none) return workload.protection;
  const Pod* pod = workload.pod.get();
  if (pod != nullptr && pod->origin != PodOrigin::api) return Protection::static_pod;
  // A declaration here takes precedence over Kubernetes' facts. No priority is 0, as in kubelet,
  // and 0 is not critical.
  const std::optional<std::int32_t> priority =
      workload.priority || pod == nullptr ? workload.priority : pod->priority;
  if (priority.value_or(0) >= kCriticalPriority) return Protection::critical;
  return may_be_critical(workload) ? Protection::may_be_critical : Protection::none;
}

ProtectedPaths::ProtectedPaths(const std::vector<WorkloadSample>& workloads) {
  for (const WorkloadSample& sample : workloads) {
    const Protection protection = protection_of(sample.workload);
    if (protection == Protection::none) continue;
    const std::string_view path = sample.workload.path;
    for (auto up = parent_path(path); !up.empty(); up = parent_path(up)) around_.push_back(up);
    if (protection != Protection::own_cgroup && protection != Protection::init_cgroup) {
      whole_.push_back(path);
    }
  }
  sort_unique(around_);
  sort_unique(whole_);
}

bool ProtectedPaths::protects(const Workload& workload) const {
  if (protection_of(workload) != Protection::none) return true;
  if (around_.empty() && whole_.empty()) return false;
  if (contains(around_, workload.path)) return true;
  for (std::string_view up = workload.path; !up.empty(); up = parent_path(up)) {
    if (contains(whole_, up)) return true;
  }
  return false;
}

}  // namespace forestall::policy
