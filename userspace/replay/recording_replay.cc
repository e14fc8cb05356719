// SPDX-License-Identifier: Apache-2.0
#include "replay/recording_replay.h"

#include <algorithm>
#include <utility>

#include "intake/config_override.h"
#include "policy/state.h"
#include "replay/decision_difference.h"
#include "replay/watched_samples.h"

namespace forestall::replay {

RecordingReplay::RecordingReplay(RecordingInput input, ReplayRules rules)
    : input_(std::move(input)), rules_(std::move(rules)), fold_(rules_.config.value_or(Config{})) {}

Result<Config> RecordingReplay::config_of(const messages::KeyEntry& key) {
  Config config = rules_.config.value_or(key.config);
  if (rules_.settings) {
    intake::OverriddenConfig result = TRY(intake::override_settings(config, *rules_.settings));
    config = std::move(result.config);
    warnings_ = std::move(result.warnings);
  }
  if (rules_.ranking) config.ranking = *rules_.ranking;
  return config;
}

// At the start, and where a new run of the agent starts, the policy state is taken from the
// recording. With the recorded policy this is also done after a loss, because its state then lacks
// lost evaluations.
Result<void> RecordingReplay::take_key(const messages::KeyEntry& key,
                                       const RecordingInput::InputEntry& item) {
  const bool first = fold_.counts().observations == 0 || item.new_run;
  if (item.new_run) begin_run(key);
  if (rules_.as_recorded()) {
    if (first || item.after_loss) {
      fold_.begin(key.config, key.state);
      return {};
    }
    fold_.reconfigure(key.config);
    if (!(fold_.state() == key.state)) ++states_different_;
    return {};
  }
  recorded_config_ = key.config;
  Config config = TRY(config_of(key));
  if (first) {
    const policy::State state = policy::reconfigured(key.config, config, key.state);
    fold_.begin(std::move(config), state);
    fold_.add_configured_pods();
  } else if (!(config == fold_.config())) {
    fold_.reconfigure(std::move(config));
    fold_.add_configured_pods();
  }
  coverage_.use(recorded_config_.rules, fold_.config().rules);
  return {};
}

// Cgroup ids and the monotonic clock change at a reboot, and each agent numbers its evaluations
// from 1.
void RecordingReplay::begin_run(const messages::KeyEntry& key) {
  seen_ = {};
  restarted_ = last_.has_value();
  earlier_evaluations_ = last_number_;
  note_boot(key);
}

// After a reboot, the wall clock gives the time since the last boot.
void RecordingReplay::note_boot(const messages::KeyEntry& key) {
  const std::string& boot = input_.facts().boot_id;
  if (last_ && boot != boot_id_) {
    const std::int64_t away = std::max<std::int64_t>(key.wall_time_ns - last_->wall_time_ns, 0);
    shift_ = last_->at + Duration(away) - key.at;
    recorded_.interrupt();
    replayed_.interrupt();
  }
  boot_id_ = boot;
}

Result<std::optional<RecordingReplay::ReplayedStep>> RecordingReplay::next() {
  while (auto item = TRY(next_item())) {
    if (const auto* key = std::get_if<messages::KeyEntry>(&item->entry)) {
      TRY(take_key(*key, *item));
    } else if (auto* workload_sample = std::get_if<messages::WorkloadSampleEntry>(&item->entry)) {
      if (!rules_.as_recorded()) seen_.replace(workload_sample->at, workload_sample->samples);
    } else if (auto* evaluation = std::get_if<messages::EvaluationEntry>(&item->entry)) {
      return std::optional(TRY(take_evaluation(std::move(*evaluation))));
    }
  }
  if (last_) coverage_.finish(last_->at);
  return std::optional<ReplayedStep>();
}

Result<std::optional<RecordingInput::InputEntry>> RecordingReplay::next_item() {
  if (ahead_) return std::exchange(ahead_, std::nullopt);
  return input_.next();
}

// The agent samples all workloads at the end of the evaluation at which that is due
// (agent/record_reporter.cc workload_sample()). Another policy would have read them at that
// evaluation. Only records and pressure entries stand between the two entries.
Result<void> RecordingReplay::sample_workloads_after() {
  while (auto item = TRY(input_.next())) {
    if (const auto* workload_sample = std::get_if<messages::WorkloadSampleEntry>(&item->entry)) {
      seen_.replace(workload_sample->at, workload_sample->samples);
      break;
    }
    if (std::holds_alternative<messages::RecordedEntry>(item->entry) ||
        std::holds_alternative<messages::PressureEntry>(item->entry)) {
      continue;
    }
    ahead_ = std::move(item);
    break;
  }
  return {};
}

Result<RecordingReplay::ReplayedStep> RecordingReplay::take_evaluation(
    messages::EvaluationEntry evaluation) {
  ReplayedStep step;
  step.evaluation = last_number_ = earlier_evaluations_ + evaluation.number;
  std::string_view recorded = evaluation.decision;
  if (!rules_.as_recorded()) {
    step.recorded = TRY(messages::decode_decision(evaluation));
    recorded = recorded_bytes_.assign(recorded);
    if (!evaluation.evaluated.observation.workloads) TRY(sample_workloads_after());
  }
  step.evaluated = std::move(evaluation.evaluated);
  Observation& observation = step.evaluated.observation;
  step.at = observation.at + shift_;
  if (std::exchange(restarted_, false)) step.restarted_after = step.at - last_->at;
  last_ = LastEvaluation{step.at, step.evaluated.wall_time_ns};
  if (rules_.as_recorded()) {
    step.decision =
        step.evaluated.prepared ? fold_.sample_subjects(observation) : fold_.take(observation);
  } else {
    step.decision = decide_anew(step);
  }
  messages::encode_decision(step.decision, observation, bytes_);
  step.as_recorded = bytes_ == recorded;
  ++(step.as_recorded ? same_ : different_);
  if (!rules_.as_recorded()) {
    otherwise_ += acts_otherwise(*step.recorded, step.decision) ? 1 : 0;
    recorded_.take(observation.at, *step.recorded, std::nullopt, shift_);
    replayed_.take(observation.at, step.decision, step.age, shift_);
    return step;
  }
  if (step.as_recorded) return step;
  messages::EvaluationEntry unread;
  unread.evaluated.observation = observation;
  unread.decision = recorded;
  step.recorded = TRY(messages::decode_decision(unread));
  if (!first_) first_ = Difference{step.evaluation, step.at, *step.recorded, step.decision};
  return step;
}

// An evaluation of the pre-ranked victims contains no other workload, and was read for the recorded
// policy's subjects only. This policy therefore decides on all workloads last read, and keeps no
// state of it, as the agent.
Decision RecordingReplay::decide_anew(ReplayedStep& step) {
  Observation& observation = step.evaluated.observation;
  assign_watched(recorded_config_, fold_.config(), observation.watched);
  coverage_.take(step.at, observation.rules);
  if (observation.workloads) seen_.note(observation.at, *observation.workloads);
  const auto supply = [&](Observation& partial) {
    if (partial.workloads || seen_.empty()) return false;
    partial.workloads = seen_.at(partial.at);
    return true;
  };
  const bool sample_subjects = step.evaluated.prepared.has_value();
  if (sample_subjects && !seen_.empty()) observation.workloads = seen_.at(observation.at);
  Decision decision =
      sample_subjects ? fold_.sample_subjects(observation) : fold_.take(observation, supply);
  if (decision.considered.empty()) return decision;
  // Age of the victim's sample, or of the first candidate's if there is no victim.
  const std::size_t reported = decision.victim().value_or(0);
  const auto age = seen_.age(decision.considered[reported].sample.workload.cgroup, observation.at);
  if (age && *age > Duration::zero()) step.age = age;
  return decision;
}

}  // namespace forestall::replay
