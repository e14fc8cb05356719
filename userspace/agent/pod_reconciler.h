// SPDX-License-Identifier: Apache-2.0
// What is done without any pressure: the disks of known pods are measured for limits on local
// storage, the oom_score_adj of their processes is checked, memory QoS gets their facts, and the
// usage of pods is read that annotations protect.
#pragma once

#include <optional>

#include "agent/memory_qos.h"
#include "agent/oom_score_adj_reconciler.h"
#include "agent/pod_annotation_reporter.h"
#include "base/clock.h"
#include "model/config.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class PodReconciler {
 public:
  PodReconciler(const Clock& clock, sources::Observer& observer, const kernel::CgroupTree& tree,
                exports::Log& log, const Config& config, LoopMemoryQos& memory_qos,
                PodAnnotationReporter& annotations)
      : clock_(clock),
        observer_(observer),
        log_(log),
        config_(config),
        oom_score_adj_(tree, log),
        memory_qos_(memory_qos),
        annotations_(annotations) {}

  void reconcile();
  [[nodiscard]] bool is_due(MonotonicTime now) const { return due_ <= now; }
  // Nothing: there is nothing to do.
  [[nodiscard]] std::optional<MonotonicTime> next() const {
    const bool idle = config_.known_pods.empty() && config_.memory_qos.mode == MemoryQosMode::off;
    return idle ? std::nullopt : std::optional(due_);
  }

 private:
  void update_memory_qos(std::optional<Bytes> capacity);

  const Clock& clock_;
  sources::Observer& observer_;
  exports::Log& log_;
  const Config& config_;
  OomScoreAdjReconciler oom_score_adj_;
  LoopMemoryQos& memory_qos_;
  PodAnnotationReporter& annotations_;
  bool qos_failure_logged_ = false;
  std::optional<Bytes> capacity_;  // the last one that was read
  MonotonicTime due_;
};

}  // namespace forestall::agent
