// SPDX-License-Identifier: Apache-2.0
#include "agent/pod_reconciler.h"

#include <span>

namespace forestall::agent {
namespace {

// Kubelet measures volumes this often (KubeletConfiguration volumeStatsAggPeriod).
constexpr Duration kLimitsAgeMax = std::chrono::minutes(1);

}  // namespace

void PodReconciler::reconcile() {
  const MonotonicTime now = clock_.now();
  due_ = now + config_.recheck_interval;
  if (config_.known_pods.empty()) return;
  if (config_.local_storage_isolation) observer_.request_disk_usage(now, kLimitsAgeMax);
  const CgroupId node{};
  const auto observation =
      observer_.sample_subjects(Wake{WakeSource::recheck, now, {}, {}}, now, std::span(&node, 1));
  if (!observation.node.capacity) return;
  const OomScoreAdj mode = config_.dry_run ? OomScoreAdj::observe : config_.oom_score_adj;
  oom_score_adj_.reconcile(observer_.workloads(), *observation.node.capacity, mode);
}

}  // namespace forestall::agent
