// SPDX-License-Identifier: Apache-2.0
#include "policy/pressure_evictions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/duration.h"
#include "model/workload_class.h"
#include "policy/container_pressure.h"
#include "policy/damage_limit.h"
#include "policy/exclusion.h"
#include "policy/grace.h"
#include "policy/rank.h"

namespace forestall::policy {
namespace {

EvictionCause cause_of(PressureSignal signal) {
  switch (signal) {
    case PressureSignal::high: return EvictionCause::high_pressure;
    case PressureSignal::max: return EvictionCause::max_pressure;
    case PressureSignal::psi: break;
  }
  return EvictionCause::psi_pressure;
}

// Of a measured value, and of a threshold.
std::string with_one_digit(double value) {
  std::array<char, 400> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed, 1);
  return {digits.data(), end.ptr};
}
std::string as_written(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

// "12.0 "high" events a second, threshold 10"
std::string excess_text(const PressedContainer& pressed) {
  const std::string value = with_one_digit(pressed.value);
  const std::string threshold = as_written(pressed.threshold);
  if (pressed.signal == PressureSignal::psi) {
    return "its tasks waited " + value + " % of the time, threshold " + threshold + " %";
  }
  return value + " \"" + std::string(to_string(pressed.signal)) + "\" events a second, threshold " +
         threshold;
}

// Without a soft threshold, its grace is that of one.
Duration grace_of(const Config& config, const Workload& victim) {
  Threshold soft;
  soft.grace = std::chrono::seconds(1);
  return eviction_grace(config, soft, victim);
}

Eviction eviction_for(const Config& config, const PressedContainer& pressed, const Workload& victim,
                      std::size_t candidate) {
  Eviction eviction;
  eviction.candidate = candidate;
  eviction.cause = cause_of(pressed.signal);
  eviction.at_once = pressed.stage == PressureStage::kill;
  eviction.grace = grace_of(config, victim);
  eviction.message = "Container " + pressed.subject + " stayed under memory pressure for " +
                     brief(pressed.over_for) + ": " + excess_text(pressed) + ". ";
  if (victim.pod) {
    const auto slash = pressed.subject.rfind('/');
    eviction.annotations.emplace_back("offending_containers", pressed.subject.substr(slash + 1));
  }
  eviction.disruption_target = true;
  eviction.metric_signal = to_string(eviction.cause);
  return eviction;
}

const WorkloadSample* workload_of(const PressedContainer& pressed,
                                  const std::vector<WorkloadSample>& workloads) {
  const auto found = std::ranges::find_if(workloads, [&](const WorkloadSample& each) {
    return each.workload.cgroup == pressed.workload;
  });
  return found == workloads.end() ? nullptr : &*found;
}

// Kills in a grace period, and those that were sent long ago and are not over, count too.
KillRate rate_of(const Config& config, const Observation& observation) {
  KillRate rate(config, observation);
  for (const KillProgress& kill : observation.kills) {
    const bool is_old = observation.at - kill.started >= config.kill_limit.window;
    const bool counts_elsewhere = kill.state == KillState::in_flight && !is_old;
    const bool runs = kill.state == KillState::terminating || kill.state == KillState::in_flight;
    if (runs && !counts_elsewhere) rate.add(workload_class_at(kill.path));
  }
  return rate;
}

// Its processes are others than those that were under pressure. A grace that runs is no end.
bool was_killed_since(const PressedContainer& pressed, const Observation& observation) {
  return std::ranges::any_of(observation.kills, [&](const KillProgress& kill) {
    const bool is_grace =
        kill.state == KillState::terminating && pressed.stage == PressureStage::kill;
    return kill.cgroup == pressed.workload && !is_grace &&
           pressed.at - kill.started < pressed.over_for;
  });
}

// A threshold on memory that is met decides, also while it waits for the memory of its victim.
bool is_for_thresholds(const Decision& decision) {
  return std::ranges::any_of(decision.evidence, [](const Evidence& each) {
    return each.first_met && each.threshold.response == Response::evict &&
           resource_of(each.threshold.signal) == Resource::memory;
  });
}

void inspect(Decision& decision) {
  decision.action = Action::inspect;
  decision.reason = Reason::workloads_unread;
  decision.driving.reset();
  decision.considered.clear();
  decision.damage.reset();
}

std::string refusal_text(Exclusion exclusion) {
  switch (exclusion) {
    case Exclusion::none: return {};
    case Exclusion::is_protected: return "not evicted: it is protected";
    case Exclusion::kill_in_flight: return "it is being evicted";
    case Exclusion::kill_failed: return "not evicted: a kill of it failed";
    case Exclusion::empty: return "not evicted: it has no process";
    case Exclusion::unkillable: return "not evicted: the kernel cannot kill it";
  }
  return {};
}

// What was requested under a former configuration is not in force.
bool is_requested(const Config& config, const Observation& observation,
                  const PressedContainer& each) {
  const ContainerPressureConfig& pressure = config.container_pressure;
  return pressure.enforces && pressure.rule.stages.contains(each.stage) &&
         observation.at - each.at <= kPressureGapMax;
}

class PressurePass {
 public:
  PressurePass(const Config& config, const Observation& observation)
      : config_(config),
        observation_(observation),
        workloads_(*observation.workloads),
        terminating_(workloads_, observation.kills, Terminating::excluded),
        killing_(workloads_, observation.kills),
        rate_(rate_of(config, observation)) {}

  // Whether its pod is the victim.
  bool consider(const PressedContainer& pressed) {
    const WorkloadSample* sample = workload_of(pressed, workloads_);
    if (sample == nullptr || was_killed_since(pressed, observation_)) return false;
    const bool kills = pressed.stage == PressureStage::kill;
    const Exclusion exclusion = (kills ? killing_ : terminating_).of(*sample);
    considered_.push_back({*sample, rank_key(*sample, RankBy{}), exclusion});
    if (exclusion != Exclusion::none) return false;
    if (rate_.is_reached(workload_class_at(sample->workload.path))) return false;
    eviction_ = eviction_for(config_, pressed, sample->workload, considered_.size() - 1);
    return true;
  }

  // Empty: it may be evicted, or its processes are not those under pressure any more.
  [[nodiscard]] std::string refusal(const PressedContainer& pressed) const {
    const WorkloadSample* sample = workload_of(pressed, workloads_);
    if (sample == nullptr) return "not evicted: it is no workload of the agent";
    if (was_killed_since(pressed, observation_)) return {};
    const bool kills = pressed.stage == PressureStage::kill;
    const Exclusion exclusion = (kills ? killing_ : terminating_).of(*sample);
    if (exclusion != Exclusion::none) return refusal_text(exclusion);
    const bool is_limited = rate_.is_reached(workload_class_at(sample->workload.path));
    return is_limited ? "not evicted: killLimit is reached" : "";
  }

  void put(Decision& decision) {
    decision.action = Action::kill;
    decision.reason = Reason::container_pressure;
    decision.driving.reset();
    decision.damage.reset();
    decision.considered = std::move(considered_);
    decision.evictions = {std::move(eviction_)};
  }

 private:
  const Config& config_;
  const Observation& observation_;
  const std::vector<WorkloadSample>& workloads_;
  const Exclusions terminating_;
  const Exclusions killing_;
  const KillRate rate_;
  std::vector<Candidate> considered_;
  Eviction eviction_;
};

}  // namespace

void evict_for_pressure(const Config& config, const Observation& observation, Decision& decision) {
  const auto counts = [&](const PressedContainer& each) {
    return is_requested(config, observation, each);
  };
  if (is_for_thresholds(decision) || std::ranges::none_of(observation.pressed, counts)) return;
  if (!observation.workloads) return inspect(decision);
  PressurePass pass(config, observation);
  for (const PressedContainer& each : observation.pressed) {
    if (counts(each) && pass.consider(each)) return pass.put(decision);
  }
}

std::vector<PressureRefusal> pressure_refusals(const Config& config, const Observation& observation,
                                               const Decision& decision) {
  std::vector<PressureRefusal> refusals;
  if (observation.pressed.empty() || !observation.workloads || is_for_thresholds(decision)) {
    return refusals;
  }
  const PressurePass pass(config, observation);
  for (const PressedContainer& each : observation.pressed) {
    if (!is_requested(config, observation, each)) continue;
    std::string result = pass.refusal(each);
    if (!result.empty()) refusals.push_back({each.subject, std::move(result)});
  }
  return refusals;
}

}  // namespace forestall::policy
