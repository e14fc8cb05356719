// SPDX-License-Identifier: Apache-2.0
// Why a candidate is excluded.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/decision.h"
#include "model/kill.h"
#include "model/observation.h"
#include "policy/protection.h"

namespace forestall::policy {

// How a victim in its grace period is treated when the next victim is selected.
enum class Terminating : std::uint8_t {
  candidate,  // selecting it again ends its grace
  excluded,   // it is already being evicted
};

class Exclusions {
 public:
  // `workloads` and `kills` must outlive the object.
  Exclusions(const std::vector<WorkloadSample>& workloads, const std::vector<KillProgress>& kills,
             Terminating terminating = Terminating::candidate);

  // The first applicable reason, in the order of the enumerators:
  // - protected;
  // - being killed, itself or an ancestor; terminating counts too if `terminating` excludes it;
  // - tried before without success, so that the next candidate is selected instead of an unkillable
  //   one. By identity: a cgroup created again under the same path is a new candidate;
  // - empty: known to have no process. An unknown number of processes is not zero.
  [[nodiscard]] Exclusion of(const WorkloadSample& sample) const;

 private:
  [[nodiscard]] bool dying_around(std::string_view path) const;

  ProtectedPaths protected_;
  std::vector<CgroupId> in_flight_;                // sorted
  std::vector<CgroupId> failed_;                   // sorted; stuck ones too
  std::vector<std::string_view> in_flight_paths_;  // sorted
};

}  // namespace forestall::policy
