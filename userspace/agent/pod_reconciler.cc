// SPDX-License-Identifier: Apache-2.0
#include "agent/pod_reconciler.h"

namespace forestall::agent {
namespace {

// Kubelet measures volumes this often (KubeletConfiguration volumeStatsAggPeriod).
constexpr Duration kLimitsAgeMax = std::chrono::minutes(1);

}  // namespace

void PodReconciler::reconcile() {
  const MonotonicTime now = clock_.now();
  due_ = now + config_.recheck_interval;
  if (config_.known_pods.empty()) return;
  if (config_.local_storage_isolation) observer_.ask_disk_usage(now, kLimitsAgeMax);
  Observation observation = observer_.sample_node(Wake{WakeSource::recheck, now, {}, {}}, now);
  observer_.add_workloads(observation, {}, sources::kUnscored);
  if (!observation.workloads || !observation.node.capacity) return;
  const OomScoreAdj mode = config_.dry_run ? OomScoreAdj::observe : config_.oom_score_adj;
  oom_score_adj_.reconcile(*observation.workloads, *observation.node.capacity, mode);
}

}  // namespace forestall::agent
