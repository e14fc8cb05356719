// SPDX-License-Identifier: Apache-2.0
// Why a candidate is passed over when its turn comes.
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

// What a victim in its grace period, which is still there, is to whoever looks for the next one.
enum class Terminating : std::uint8_t {
  candidate,  // choosing it again ends its grace
  excluded,   // it is going, that is enough
};

class Exclusions {
 public:
  // `workloads` and `kills` must outlive the object.
  Exclusions(const std::vector<WorkloadSample>& workloads, const std::vector<KillProgress>& kills,
             Terminating terminating = Terminating::candidate);

  // The first reason that holds, in the order of the enumerators:
  // - protected;
  // - being killed, itself or a cgroup around it; terminating counts as that if it is excluded;
  // - tried before without success, so that an unkillable victim gives way to the next one. By
  //   identity: a cgroup made anew under the same path is a new candidate;
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
