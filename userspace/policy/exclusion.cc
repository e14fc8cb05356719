// SPDX-License-Identifier: Apache-2.0
// Exclusion of candidates: protected, being killed, failed to be killed, or empty.
#include "policy/exclusion.h"

#include <algorithm>

namespace forestall::policy {

Exclusions::Exclusions(const std::vector<WorkloadSample>& workloads,
                       const std::vector<KillProgress>& kills, Terminating terminating)
    : protected_(workloads) {
  for (const KillProgress& kill : kills) {
    switch (kill.state) {
      case KillState::terminating:
        if (terminating == Terminating::candidate) break;
        [[fallthrough]];
      case KillState::in_flight:
        in_flight_.push_back(kill.cgroup);
        in_flight_paths_.push_back(kill.path);
        break;
      case KillState::stuck:
      case KillState::failed: failed_.push_back(kill.cgroup); break;
      case KillState::released:
        // Finished. Processes in the cgroup now came afterwards (a restarted container).
        break;
    }
  }
  std::sort(in_flight_.begin(), in_flight_.end());
  std::sort(failed_.begin(), failed_.end());
  std::sort(in_flight_paths_.begin(), in_flight_paths_.end());
}

bool Exclusions::dying_around(std::string_view path) const {
  if (in_flight_paths_.empty()) return false;
  for (auto up = parent_path(path); !up.empty(); up = parent_path(up)) {
    if (std::binary_search(in_flight_paths_.begin(), in_flight_paths_.end(), up)) return true;
  }
  return false;
}

Exclusion Exclusions::of(const WorkloadSample& sample) const {
  const Workload& workload = sample.workload;
  if (protected_.protects(workload)) return Exclusion::is_protected;
  if (std::binary_search(in_flight_.begin(), in_flight_.end(), workload.cgroup) ||
      dying_around(workload.path)) {
    return Exclusion::kill_in_flight;
  }
  if (std::binary_search(failed_.begin(), failed_.end(), workload.cgroup)) {
    return Exclusion::kill_failed;
  }
  if (sample.processes && *sample.processes == 0) return Exclusion::empty;
  return Exclusion::none;
}

}  // namespace forestall::policy
