// SPDX-License-Identifier: Apache-2.0
#include "agent/growth_watch.h"

#include "agent/sampling_turn.h"

namespace forestall::agent {
namespace {

// Time between two such samplings, as a multiple of the length of one.
constexpr int kBudget = 1000;

}  // namespace

void GrowthWatch::begin_sampling(const Config& config) {
  const MonotonicTime began = clock_.now();
  if (config.ranking != Ranking::kubelet_growth || baseline_.warned() || began < sampling_due_)
    return;
  if (!sampling_) sampling_ = Sampling{began, observer_.workload_changes()};
}

void GrowthWatch::work() {
  if (baseline_.warned()) return stop();
  const MonotonicTime began = clock_.now();
  // Where workloads come and go faster than they are sampled, turns would never end: all at once.
  const bool at_once = sampling_->changes != observer_.workload_changes();
  if (at_once) sampling_ = Sampling{began, observer_.workload_changes(), {}, 0, sampling_->took};
  bool more = sample_for_a_turn(clock_, observer_, sampling_->read, {}, sampling_->next);
  while (more && at_once) {
    more = sample_for_a_turn(clock_, observer_, sampling_->read, {}, sampling_->next);
  }
  const MonotonicTime ended = clock_.now();
  sampling_->took += ended - began;
  if (more) return;
  baseline_.take_before_warning(*sampling_->read.workloads, sampling_->began);
  sampling_due_ = ended + sampling_->took * kBudget;
  sampling_.reset();
}

}  // namespace forestall::agent
