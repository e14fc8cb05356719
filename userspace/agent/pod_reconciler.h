// SPDX-License-Identifier: Apache-2.0
// What is done for known pods without any pressure: their disks are measured for limits on local
// storage, and the oom_score_adj of their processes is checked.
#pragma once

#include <optional>

#include "agent/oom_score_adj_reconciler.h"
#include "base/clock.h"
#include "model/config.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class PodReconciler {
 public:
  PodReconciler(const Clock& clock, sources::Observer& observer, const kernel::CgroupTree& tree,
                exports::Log& log, const Config& config)
      : clock_(clock), observer_(observer), config_(config), oom_score_adj_(tree, log) {}

  void reconcile();
  [[nodiscard]] bool is_due(MonotonicTime now) const { return due_ <= now; }
  // Nothing: no pods are known.
  [[nodiscard]] std::optional<MonotonicTime> next() const {
    return config_.known_pods.empty() ? std::nullopt : std::optional(due_);
  }

 private:
  const Clock& clock_;
  sources::Observer& observer_;
  const Config& config_;
  OomScoreAdjReconciler oom_score_adj_;
  MonotonicTime due_;
};

}  // namespace forestall::agent
