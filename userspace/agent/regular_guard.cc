// SPDX-License-Identifier: Apache-2.0
#include "agent/regular_guard.h"

#include <utility>

#include "agent/sampling_turn.h"

namespace forestall::agent {
namespace {

// While workloads come and go faster than they are sampled, all are sampled in one turn: a list
// must not be long in coming, nor lack a workload.
constexpr int kSamplingRestarts = 3;

}  // namespace

void RegularGuard::start(RegularListSource source) {
  cancel();
  job_ = std::make_shared<RegularListJob>(parts_.guard, parts_.tree, std::move(source));
  thread_.start(job_);
}

void RegularGuard::sample(RegularListSource source) {
  cancel();
  const MonotonicTime at = source.at;
  sampling_ = Sampling{std::move(source), at, 0, parts_.observer.workload_changes(), 0};
}

void RegularGuard::cancel() {
  sampling_.reset();
  if (job_) job_->cancel();
  job_.reset();
}

void RegularGuard::work(const GrowthWatch& growth) {
  if (sample_for_this_turn()) {
    sampling_->due = parts_.clock.now();
    return;
  }
  RegularListSource source = std::exchange(sampling_, std::nullopt)->source;
  growth.apply(*source.record.observation.workloads);
  start(std::move(source));
}

// False: those were all.
bool RegularGuard::sample_for_this_turn() {
  Observation& observation = sampling_->source.record.observation;
  const std::uint64_t changes = parts_.observer.workload_changes();
  if (std::exchange(sampling_->changes, changes) != changes) {
    observation.workloads.reset();
    sampling_->next = 0;
    if (++sampling_->restarts > kSamplingRestarts) {
      parts_.observer.add_workloads(observation, {}, sources::kUnscored);
      return false;
    }
  }
  return sample_for_a_turn(parts_.clock, parts_.observer, observation, {}, sampling_->next);
}

std::shared_ptr<RegularListJob> RegularGuard::take() {
  if (!job_ || !job_->done()) return nullptr;
  return std::exchange(job_, nullptr);
}

}  // namespace forestall::agent
