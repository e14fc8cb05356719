// SPDX-License-Identifier: Apache-2.0
// The calm look, within its budget.
#include "agent/growth_watch.h"

namespace forestall::agent {
namespace {

// Time between two calm looks, in terms of how long one takes.
constexpr int kBudget = 1000;

}  // namespace

void GrowthWatch::look_calmly(const Config& config) {
  const MonotonicTime began = clock_.now();
  if (config.ranking != Ranking::kubelet_growth || baseline_.warned() || began < calm_due_) return;
  Observation read;
  observer_.add_workloads(read, {}, sources::kUnscored);
  baseline_.calm(*read.workloads, began);
  const MonotonicTime ended = clock_.now();
  calm_due_ = ended + (ended - began) * kBudget;
}

}  // namespace forestall::agent
