// SPDX-License-Identifier: Apache-2.0
#include "agent/growth_watch.h"

namespace forestall::agent {
namespace {

// Time between two such samplings, as a multiple of the length of one.
constexpr int kBudget = 1000;

}  // namespace

void GrowthWatch::evaluate_calm(const Config& config) {
  const MonotonicTime began = clock_.now();
  if (config.ranking != Ranking::kubelet_growth || baseline_.warned() || began < calm_due_) return;
  Observation read;
  observer_.add_workloads(read, {}, sources::kUnscored);
  baseline_.calm(*read.workloads, began);
  const MonotonicTime ended = clock_.now();
  calm_due_ = ended + (ended - began) * kBudget;
}

}  // namespace forestall::agent
