// SPDX-License-Identifier: Apache-2.0
// Pods that were killed and that the API server deletes. A container of such a pod may start again:
// the kubelet had handled its end before it received the deletion. It is killed again at once,
// because it may leak as fast as before, and the kubelet ends it anyway.
//
// The facts of the pod show the deletion (metadata.deletionTimestamp). Without them a container
// that starts again is ordinary: the eviction may have been refused, and a threshold decides anew.
// A deletion that comes later may have another cause, such as a rolling update: the container then
// ends gracefully. So only the first seconds after the kill count. Only the cgroup of the kill
// counts, by its identity.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actuators/ladder.h"
#include "agent/kill_controller.h"
#include "base/clock.h"
#include "model/ids.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class EvictedPodWatch {
 public:
  // Between two readings, while there is such a pod. Each reads one pod.
  static constexpr Duration kInterval = std::chrono::milliseconds(100);
  // From the start of the first kill. The kubelet starts a container once more within about a
  // second, and receives the deletion of an evicted pod about as fast.
  static constexpr Duration kWatchedFor = std::chrono::seconds(3);
  // Kills of one pod after the first. A kubelet starts one container after the other.
  static constexpr std::uint32_t kRepetitionsMax = 5;

  // All outlive it.
  EvictedPodWatch(const Clock& clock, sources::Observer& observer, const actuators::Ladder& ladder,
                  KillController& kills)
      : clock_(clock), observer_(observer), ladder_(ladder), kills_(kills) {}

  // A kill made progress, or the facts of pods changed.
  void changed();
  // When check() is due; nothing: there is no such pod.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const { return due_; }
  // Kills those that run again.
  void check();

 private:
  struct EvictedPod {
    CgroupId cgroup;
    std::string path;
  };

  [[nodiscard]] std::vector<EvictedPod> evicted() const;
  void kill_if_running(const EvictedPod& pod);

  const Clock& clock_;
  sources::Observer& observer_;
  const actuators::Ladder& ladder_;
  KillController& kills_;
  std::optional<MonotonicTime> due_;
  std::map<CgroupId, std::uint32_t> repetitions_;
};

}  // namespace forestall::agent
