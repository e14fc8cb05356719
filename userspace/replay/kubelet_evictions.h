// SPDX-License-Identifier: Apache-2.0
// The metric kubelet_evictions as kubelet would count the decided evictions of pods.
//
// After a pass that evicted, kubelet runs none until the pods are gone, at most 30 s
// (pkg/kubelet/eviction/eviction_manager.go waitForPodsCleanup). A replay does not remove its
// victims, so the condition may last for many evaluations; once no threshold is met, the victims
// count as gone. If the recorded agent killed the same
// victim, the policy waits for it itself, as the observed kills show.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::replay {

class KubeletEvictions {
 public:
  void take(const Observation& observation, const Decision& decision);
  // By eviction_signal.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

 private:
  struct Evicted {
    CgroupId pod;
    MonotonicTime at;
  };

  std::vector<Evicted> awaited_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace forestall::replay
