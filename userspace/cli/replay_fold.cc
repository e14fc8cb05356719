// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_fold.h"

#include "policy/step.h"

namespace forestall::cli {

ReplayFold::ReplayFold(Config config) : config_(std::move(config)) {
  for (const auto& pod : config_.known_pods) known_pods_.emplace(pod->uid, pod);
}

Decision ReplayFold::take(Observation& observation) {
  know_pods(observation);
  policy::Step step = policy::step(config_, state_, observation);
  state_ = std::move(step.state);
  count(observation, step.decision);
  return std::move(step.decision);
}

void ReplayFold::know_pods(Observation& observation) const {
  if (known_pods_.empty() || !observation.workloads) return;
  for (WorkloadSample& sample : *observation.workloads) {
    if (sample.workload.pod || !sample.workload.pod_uid) continue;
    const auto known = known_pods_.find(*sample.workload.pod_uid);
    if (known != known_pods_.end()) sample.workload.pod = known->second;
  }
}

void ReplayFold::count(const Observation& observation, const Decision& decision) {
  ++counts_.observations;
  if (!counts_.first) counts_.first = observation.at;
  counts_.last = observation.at;
  ++counts_.decisions[{decision.action, decision.reason}];
  for (const Eviction& eviction : decision.evictions) ++counts_.evictions[eviction.metric_signal];
  changed_.clear();
  for (std::size_t i = 0; i < decision.conditions.size(); ++i) {
    ConditionCount& known = counts_.conditions[i];
    if (known.status == decision.conditions[i].status) continue;
    known.status = decision.conditions[i].status;
    ++known.changes;
    changed_.push_back(decision.conditions[i]);
  }
}

}  // namespace forestall::cli
