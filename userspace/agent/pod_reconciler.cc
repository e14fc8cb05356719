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
  if (is_idle()) {
    update_memory_qos();
    return update_container_pressure();
  }
  if (!config_.known_pods.empty() && config_.local_storage_isolation) {
    observer_.request_disk_usage(now, kLimitsAgeMax);
  }
  const CgroupId node{};
  const auto observation =
      observer_.sample_subjects(Wake{WakeSource::recheck, now, {}, {}}, now, std::span(&node, 1));
  // A reading that fails once must not end all protection.
  if (observation.node.capacity) capacity_ = observation.node.capacity;
  update_memory_qos();
  update_container_pressure();
  users_.annotations.show_next(observer_.workloads(), config_.pod_annotations);
  users_.annotations.measure(observer_.workloads(), observation.node.capacity);
  if (!observation.node.capacity || config_.known_pods.empty()) return;
  const OomScoreAdj mode = config_.dry_run ? OomScoreAdj::observe : config_.oom_score_adj;
  oom_score_adj_.reconcile(observer_.workloads(), *observation.node.capacity, mode);
}

void PodReconciler::update_memory_qos() {
  MemoryQosFacts facts;
  facts.config = config_.memory_qos;
  facts.dry_run = config_.dry_run;
  if (facts.config.mode != MemoryQosMode::off) {
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
  note("memory-qos", users_.memory_qos.update(std::move(facts)), qos_failure_logged_);
}

void PodReconciler::update_container_pressure() {
  ContainerPressureFacts facts;
  facts.config = config_.container_pressure;
  facts.config.enforces = facts.config.enforces && !config_.dry_run;
  if (facts.config.is_on()) {
    if (capacity_) facts.reserve = policy::lift_reserve(config_.thresholds, *capacity_);
    // Without a threshold nothing defines a short node.
    if (facts.reserve == Bytes{0}) facts.reserve.reset();
    for (const Workload* each : observer_.workloads()) {
      if (each->kind != WorkloadKind::pod) continue;
      facts.pods.push_back({each->path, each->cgroup, each->pod});
    }
  }
  note("container-pressure", users_.container_pressure.update(std::move(facts)),
       pressure_failure_logged_);
}

// A problem is logged when it appears.
void PodReconciler::note(const char* event, const Result<void>& updated, bool& logged) {
  const bool was_logged = std::exchange(logged, !updated.ok());
  if (updated.ok() || was_logged) return;
  log_.write(exports::LogLevel::warning,
             exports::LogLine(event).field("problem", updated.error().text()));
}

}  // namespace forestall::agent
