// SPDX-License-Identifier: Apache-2.0
// One complete observation of this host outside of the agent's loop: for commands, `forestall top`
// and the agent's rankings.
#pragma once

#include "base/result.h"
#include "model/observation.h"
#include "sources/observer.h"

namespace forestall::sources {

struct HostSampling {
  Scoring scoring = {};
  // Also measure the disk usage of the pods, which waits until all their files were walked.
  bool disk = false;
  // If it becomes readable, the wait for the disk ends with ECANCELED; -1: it cannot be cancelled.
  int cancel_fd = -1;
};

// Rescans the cgroup tree and reads the node and every workload. The notes include what the rescan
// could not open. Thread rule: the observer's thread, which may block.
[[nodiscard]] Result<Observation> sample_host(Observer& observer,
                                              const HostSampling& sampling = {});

}  // namespace forestall::sources
