// SPDX-License-Identifier: Apache-2.0
#include "agent/evicted_pod_watch.h"

#include <algorithm>
#include <utility>

#include "policy/protection.h"

namespace forestall::agent {

std::vector<EvictedPodWatch::EvictedPod> EvictedPodWatch::evicted() const {
  std::vector<EvictedPod> found;
  if (ladder_.dry_run()) return found;
  const auto kills = ladder_.progress();
  if (std::ranges::find(kills, KillState::released, &KillProgress::state) == kills.end()) {
    return found;
  }
  const MonotonicTime earliest = clock_.now() - kWatchedFor;
  for (const Workload* workload : observer_.workloads()) {
    if (!workload->pod || !workload->pod->terminating) continue;
    const auto kill = std::ranges::find(kills, workload->cgroup, &KillProgress::cgroup);
    if (kill == kills.end() || kill->state != KillState::released) continue;
    if (kill->started < earliest) continue;
    const auto repeated = repetitions_.find(workload->cgroup);
    if (repeated != repetitions_.end() && repeated->second >= kRepetitionsMax) continue;
    found.push_back({workload->cgroup, workload->path});
  }
  return found;
}

void EvictedPodWatch::changed() {
  const auto kills = ladder_.progress();
  std::erase_if(repetitions_, [&](const auto& entry) {
    return std::ranges::find(kills, entry.first, &KillProgress::cgroup) == kills.end();
  });
  if (evicted().empty()) {
    due_.reset();
  } else if (!due_) {
    due_ = clock_.now();
  }
}

void EvictedPodWatch::check() {
  for (const EvictedPod& each : evicted()) kill_if_running(each);
  due_.reset();
  if (!evicted().empty()) due_ = clock_.now() + kInterval;
}

void EvictedPodWatch::kill_if_running(const EvictedPod& pod) {
  Observation read;
  read.at = clock_.now();
  read.wake = {WakeSource::kill_progress, read.at, pod.cgroup, std::nullopt};
  observer_.add_workloads(read, pod.path);
  const auto sample = std::ranges::find(
      *read.workloads, pod.cgroup, [](const WorkloadSample& each) { return each.workload.cgroup; });
  if (sample == read.workloads->end() || sample->processes.value_or(0) == 0) return;
  if (policy::ProtectedPaths(*read.workloads).protects(sample->workload)) return;
  const WorkloadSample victim = *sample;
  if (kills_.repeat(std::move(read), victim)) ++repetitions_[pod.cgroup];
}

}  // namespace forestall::agent
