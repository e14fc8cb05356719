// SPDX-License-Identifier: Apache-2.0
#include "agent/pod_reconciler.h"

#include <span>
#include <utility>

#include "exports/log_line.h"
#include "policy/memory_qos_plan.h"
#include "policy/throttle_lift.h"

namespace forestall::agent {
namespace {

// Kubelet measures volumes this often (KubeletConfiguration volumeStatsAggPeriod).
constexpr Duration kLimitsAgeMax = std::chrono::minutes(1);

}  // namespace

void PodReconciler::reconcile() {
  const MonotonicTime now = clock_.now();
  due_ = now + config_.recheck_interval;
  if (config_.known_pods.empty() && config_.memory_qos.mode == MemoryQosMode::off) {
    return update_memory_qos(std::nullopt);
  }
  if (!config_.known_pods.empty() && config_.local_storage_isolation) {
    observer_.request_disk_usage(now, kLimitsAgeMax);
  }
  const CgroupId node{};
  const auto observation =
      observer_.sample_subjects(Wake{WakeSource::recheck, now, {}, {}}, now, std::span(&node, 1));
  update_memory_qos(observation.node.capacity);
  annotations_.show_next(observer_.workloads(), config_.pod_annotations);
  annotations_.measure(observer_.workloads(), observation.node.capacity);
  if (!observation.node.capacity || config_.known_pods.empty()) return;
  const OomScoreAdj mode = config_.dry_run ? OomScoreAdj::observe : config_.oom_score_adj;
  oom_score_adj_.reconcile(observer_.workloads(), *observation.node.capacity, mode);
}

void PodReconciler::update_memory_qos(std::optional<Bytes> capacity) {
  MemoryQosFacts facts;
  facts.config = config_.memory_qos;
  facts.dry_run = config_.dry_run;
  if (facts.config.mode != MemoryQosMode::off) {
    // A reading that fails once must not end all protection.
    if (capacity) capacity_ = capacity;
    if (capacity_) {
      facts.node_allocatable = policy::memory_qos_allocatable(*capacity_, config_.kube_reserved,
                                                              config_.system_reserved);
      facts.min_limit =
          policy::memory_min_limit(*capacity_, config_.kube_reserved, config_.system_reserved);
      facts.lift_reserve = policy::lift_reserve(config_.thresholds, *capacity_);
    }
    facts.pods = config_.known_pods;
    for (const Workload* each : observer_.workloads()) {
      if (each->kind != WorkloadKind::pod) continue;
      if (each->pod) {
        facts.cgroups.push_back({each->path, each->cgroup, each->pod, {}});
      } else {
        ++facts.unknown_pods;
      }
    }
  }
  const auto updated = memory_qos_.update(std::move(facts));
  if (updated.ok()) {
    qos_failure_logged_ = false;
  } else if (!std::exchange(qos_failure_logged_, true)) {
    log_.write(exports::LogLevel::warning,
               exports::LogLine("memory-qos").field("problem", updated.error().text()));
  }
}

}  // namespace forestall::agent
