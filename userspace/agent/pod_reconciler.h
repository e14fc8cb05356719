// SPDX-License-Identifier: Apache-2.0
// What is done without any pressure: the disks of known pods are measured for limits on local
// storage, the oom_score_adj of their processes is checked, memory QoS and the response to pressure
// of containers get their facts, and the usage of pods is read that annotations protect.
#pragma once

#include <optional>

#include "agent/container_pressure.h"
#include "agent/memory_qos.h"
#include "agent/oom_score_adj_reconciler.h"
#include "agent/pod_annotation_reporter.h"
#include "base/clock.h"
#include "model/config.h"
#include "sources/observer.h"

namespace forestall::agent {

// Those that get the facts of pods.
struct PodFactUsers {
  LoopMemoryQos& memory_qos;
  LoopContainerPressure& container_pressure;
  PodAnnotationReporter& annotations;
};

// Thread rule: the loop's thread only. What it is made with outlives it.
class PodReconciler {
 public:
  PodReconciler(const Clock& clock, sources::Observer& observer, const kernel::CgroupTree& tree,
                exports::Log& log, const Config& config, PodFactUsers users)
      : clock_(clock),
        observer_(observer),
        log_(log),
        config_(config),
        oom_score_adj_(tree, log),
        users_(users) {}

  void reconcile();
  [[nodiscard]] bool is_due(MonotonicTime now) const { return due_ <= now; }
  // Nothing: there is nothing to do.
  [[nodiscard]] std::optional<MonotonicTime> next() const {
    return is_idle() ? std::nullopt : std::optional(due_);
  }

 private:
  [[nodiscard]] bool is_idle() const {
    return config_.known_pods.empty() && config_.memory_qos.mode == MemoryQosMode::off &&
           !config_.container_pressure.is_on();
  }
  void update_memory_qos();
  void update_container_pressure();
  void note(const char* event, const Result<void>& updated, bool& logged);

  const Clock& clock_;
  sources::Observer& observer_;
  exports::Log& log_;
  const Config& config_;
  OomScoreAdjReconciler oom_score_adj_;
  const PodFactUsers users_;
  bool qos_failure_logged_ = false;
  bool pressure_failure_logged_ = false;
  std::optional<Bytes> capacity_;  // the last one that was read
  MonotonicTime due_;
};

}  // namespace forestall::agent
