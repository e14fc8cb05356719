// SPDX-License-Identifier: Apache-2.0
#include "replay/replay_fold.h"

#include "policy/conditions.h"
#include "policy/step.h"

namespace forestall::replay {

ReplayFold::ReplayFold(Config config) : config_(std::move(config)) {
  add_configured_pods();
}

void ReplayFold::add_configured_pods() {
  known_pods_.clear();
  for (const auto& pod : config_.known_pods) known_pods_.emplace(pod->uid, pod);
}

void ReplayFold::begin(Config config, const policy::State& state) {
  config_ = std::move(config);
  state_ = state;
  known_pods_.clear();
}

void ReplayFold::reconfigure(Config config) {
  const policy::State state = policy::reconfigured(config_, config, state_);
  begin(std::move(config), state);
}

Decision ReplayFold::take(Observation& observation, const Supply& supply) {
  fill_in_pods(observation);
  policy::Step step = policy::step(config_, state_, observation);
  if (step.decision.action == Action::inspect && supply && supply(observation)) {
    fill_in_pods(observation);
    step = policy::step(config_, state_, observation);
  }
  state_ = std::move(step.state);
  count(observation, step.decision);
  count_conditions(step.decision);
  return std::move(step.decision);
}

// The agent treats a decision on a pre-ranked list in the same way.
Decision ReplayFold::sample_subjects(Observation& observation) {
  fill_in_pods(observation);
  policy::Step step = policy::step(config_, state_, observation);
  Decision decision = std::move(step.decision);
  for (ConditionStatus& status : decision.conditions) status.changed = false;
  policy::keep_pressure(step.state.conditions, state_.conditions);
  count(observation, decision);
  ++counts_.prepared;
  changed_.clear();
  return decision;
}

void ReplayFold::fill_in_pods(Observation& observation) const {
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
  if (counts_.last && observation.at > *counts_.last) {
    counts_.over += observation.at - *counts_.last;
  }
  counts_.last = observation.at;
  ++counts_.decisions[{decision.action, decision.reason}];
  counts_.kubelet_evictions.take(observation, decision);
}

void ReplayFold::count_conditions(const Decision& decision) {
  changed_.clear();
  for (std::size_t i = 0; i < decision.conditions.size(); ++i) {
    ConditionCount& known = counts_.conditions[i];
    if (known.status == decision.conditions[i].status) continue;
    known.status = decision.conditions[i].status;
    ++known.changes;
    changed_.push_back(decision.conditions[i]);
  }
}

}  // namespace forestall::replay
