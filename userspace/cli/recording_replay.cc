// SPDX-License-Identifier: Apache-2.0
#include "cli/recording_replay.h"

#include <algorithm>
#include <utility>

#include "policy/state.h"

namespace forestall::cli {
namespace {

bool act_otherwise(const Decision& a, const Decision& b) {
  const auto victims = [](const Decision& of) {
    std::vector<CgroupId> ids;
    for (const Eviction& eviction : of.evictions) {
      ids.push_back(of.considered[eviction.candidate].sample.workload.cgroup);
    }
    return ids;
  };
  return a.action != b.action || victims(a) != victims(b);
}

}  // namespace

RecordingReplay::RecordingReplay(RecordingInput input, ReplayRules rules)
    : input_(std::move(input)), rules_(std::move(rules)), fold_(rules_.config.value_or(Config{})) {}

Config RecordingReplay::config_of(const api::KeyEntry& key) const {
  Config config = rules_.config.value_or(key.config);
  if (rules_.ranking) config.ranking = *rules_.ranking;
  return config;
}

// At the start, and where a new run of the agent starts, the policy state is taken from the
// recording. With the recorded policy this is also done after a loss, because its state then lacks
// lost evaluations.
void RecordingReplay::take_key(const api::KeyEntry& key, const RecordingInput::Item& item) {
  const bool first = fold_.counts().observations == 0 || item.new_run;
  // Cgroup ids and the monotonic clock change at a reboot.
  if (item.new_run) seen_ = {};
  if (item.new_run) note_boot(key);
  if (rules_.as_recorded()) {
    if (first || item.after_loss) return fold_.begin(key.config, key.state);
    fold_.reconfigure(key.config);
    if (!(fold_.state() == key.state)) ++states_different_;
    return;
  }
  Config config = config_of(key);
  if (first) {
    const policy::State state = policy::reconfigured(key.config, config, key.state);
    fold_.begin(std::move(config), state);
    fold_.know_configured_pods();
  } else if (!(config == fold_.config())) {
    fold_.reconfigure(std::move(config));
    fold_.know_configured_pods();
  }
}

// After a reboot, the wall clock gives the time since the last boot.
void RecordingReplay::note_boot(const api::KeyEntry& key) {
  const std::string& boot = input_.facts().boot_id;
  if (last_ && boot != boot_id_) {
    const std::int64_t away = std::max<std::int64_t>(key.wall_time_ns - last_->wall_time_ns, 0);
    shift_ = last_->at + Duration(away) - key.at;
    recorded_.interrupt();
    replayed_.interrupt();
  }
  boot_id_ = boot;
}

Result<std::optional<RecordingReplay::Step>> RecordingReplay::next() {
  while (auto item = TRY(next_item())) {
    if (const auto* key = std::get_if<api::KeyEntry>(&item->entry)) {
      take_key(*key, *item);
    } else if (auto* survey = std::get_if<api::SurveyEntry>(&item->entry)) {
      if (!rules_.as_recorded()) seen_.replace(survey->at, survey->samples);
    } else if (auto* look = std::get_if<api::LookEntry>(&item->entry)) {
      return std::optional(TRY(take_look(std::move(*look))));
    }
  }
  return std::optional<Step>();
}

Result<std::optional<RecordingInput::Item>> RecordingReplay::next_item() {
  if (ahead_) return std::exchange(ahead_, std::nullopt);
  return input_.next();
}

// The agent samples all workloads at the end of the evaluation at which that is due
// (agent/core.cc). Another policy would have read them at that evaluation. Only records and
// pressure entries stand between the two entries.
Result<void> RecordingReplay::take_survey_behind() {
  while (auto item = TRY(input_.next())) {
    if (const auto* survey = std::get_if<api::SurveyEntry>(&item->entry)) {
      seen_.replace(survey->at, survey->samples);
      break;
    }
    if (std::holds_alternative<api::RecordedEntry>(item->entry) ||
        std::holds_alternative<api::PressureEntry>(item->entry)) {
      continue;
    }
    ahead_ = std::move(item);
    break;
  }
  return {};
}

Result<RecordingReplay::Step> RecordingReplay::take_look(api::LookEntry look) {
  Step step;
  step.look = look.number;
  std::string_view recorded = look.decision;
  if (!rules_.as_recorded()) {
    step.recorded = TRY(api::decode_decision(look));
    recorded = recorded_bytes_.assign(recorded);
    if (!look.looked.observation.workloads) TRY(take_survey_behind());
  }
  step.looked = std::move(look.looked);
  Observation& observation = step.looked.observation;
  step.at = observation.at + shift_;
  last_ = LastLook{step.at, step.looked.wall_time_ns};
  if (rules_.as_recorded()) {
    step.decision = step.looked.prepared ? fold_.glance(observation) : fold_.take(observation);
  } else {
    step.decision = decide_anew(step);
  }
  api::encode_decision(step.decision, observation, bytes_);
  step.as_recorded = bytes_ == recorded;
  ++(step.as_recorded ? same_ : different_);
  if (!rules_.as_recorded()) {
    otherwise_ += act_otherwise(*step.recorded, step.decision) ? 1 : 0;
    recorded_.take(observation.at, *step.recorded, std::nullopt, shift_);
    replayed_.take(observation.at, step.decision, step.age, shift_);
    return step;
  }
  if (step.as_recorded) return step;
  api::LookEntry unread;
  unread.looked.observation = observation;
  unread.decision = recorded;
  step.recorded = TRY(api::decode_decision(unread));
  if (!first_) first_ = Difference{step.look, step.at, *step.recorded, step.decision};
  return step;
}

// An evaluation of the pre-ranked victims contains no other workload, and was read for the recorded
// policy's subjects only. This policy therefore decides on all workloads last read, and keeps no
// state of it, as the agent.
Decision RecordingReplay::decide_anew(Step& step) {
  Observation& observation = step.looked.observation;
  if (observation.workloads) seen_.note(observation.at, *observation.workloads);
  const auto supply = [&](Observation& asked) {
    if (asked.workloads || seen_.empty()) return false;
    asked.workloads = seen_.at(asked.at);
    return true;
  };
  const bool glance = step.looked.prepared.has_value();
  if (glance && !seen_.empty()) observation.workloads = seen_.at(observation.at);
  Decision decision = glance ? fold_.glance(observation) : fold_.take(observation, supply);
  if (decision.considered.empty()) return decision;
  // Age of the victim's sample, or of the first candidate's if there is no victim.
  const std::size_t told = decision.victim().value_or(0);
  const auto age = seen_.age(decision.considered[told].sample.workload.cgroup, observation.at);
  if (age && *age > Duration::zero()) step.age = age;
  return decision;
}

}  // namespace forestall::cli
