// SPDX-License-Identifier: Apache-2.0
#include "agent/rule_sampler.h"

#include <utility>

#include "kernel/scheduling.h"

namespace forestall::agent {

Result<std::unique_ptr<RuleSamplerThread>> RuleSamplerThread::create(const kernel::CgroupTree& tree,
                                                                     const Clock& clock) {
  std::unique_ptr<RuleSamplerThread> made(new RuleSamplerThread(tree, clock));
  made->thread_ =
      TRY(base::JobThread::prepare("rule-sampler", [sampler = made.get()] { sampler->read(); }));
  return made;
}

// The loop frees what this thread allocated; see TreeScannerThread::refresh().
void RuleSamplerThread::read() {
  kernel::use_service_priority();
  sample_.observation = reader_.read_planned(clock_.now(), sample_.needs);
  sample_.idle_until = reader_.idle_until();
}

Result<void> RuleSamplerThread::prepare(const Config& config) {
  if (config.rules) TRY(thread_->begin());
  return {};
}

bool RuleSamplerThread::start(const RuleNeeds& needs) {
  if (thread_->running()) return false;
  sample_.needs = needs;
  return thread_->start();
}

std::optional<RuleSampler::Finished> RuleSamplerThread::finish() {
  if (!thread_->finish()) return std::nullopt;
  return std::exchange(sample_, Finished{});
}

RuleReadings::RuleReadings(RuleSampler& sampler, const Config& config) : sampler_(sampler) {
  reconfigured(config);
}

void RuleReadings::reconfigured(const Config& config) {
  if (config.rules == rulesets_) return;
  rulesets_ = config.rules;
  needs_ = rulesets_ ? RuleNeeds(rulesets::reading_plan(*rulesets_)) : RuleNeeds();
  read_.reset();
  all_deferred_ = false;
  due_ = std::min(due_, began_ + kInterval);
}

std::optional<MonotonicTime> RuleReadings::next_due() const {
  if (!needs_ || reads_) return std::nullopt;
  return due_;
}

void RuleReadings::start(MonotonicTime now) {
  began_ = now;
  due_ = now + kInterval;
  hastened_ = false;
  reads_ = sampler_.start(needs_);
}

bool RuleReadings::take() {
  auto reading = sampler_.finish();
  if (!reading) return false;
  reads_ = false;
  if (!needs_ || reading->needs != needs_) return false;
  const bool has_cgroups = !reading->observation.cgroups.empty();
  if (defers_all(reading->observation) && all_deferred_ && !has_cgroups) {
    if (!hastened_) due_ = std::max(due_, reading->idle_until);
    return false;
  }
  read_ = std::move(reading->observation);
  return true;
}

bool RuleReadings::defers_all(const rulesets::RuleObservation& read) const {
  return !needs_->empty() && read.deferred.size() == needs_->size();
}

SharedValue<rulesets::RuleObservation> RuleReadings::use() {
  if (read_ && needs_) all_deferred_ = defers_all(*read_);
  return std::exchange(read_, {});
}

}  // namespace forestall::agent
