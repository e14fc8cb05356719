// SPDX-License-Identifier: Apache-2.0
// Decisions as short texts, and runs of steps on one node.
#pragma once

#include <string>
#include <utility>

#include "policy/step.h"
#include "tests/policy/world.h"

namespace forestall::policy {

// "kill /a for node", "inspect for /b: workloads-unread", "none: no-data",
// "kill /a /b: local-storage-limit".
inline std::string reported(const Decision& decision) {
  std::string text(to_string(decision.action));
  for (const Eviction& eviction : decision.evictions) {
    text += " " + decision.considered[eviction.candidate].sample.workload.path;
  }
  if (decision.driving) text += " for " + decision.evidence[*decision.driving].subject;
  if (decision.reason != Reason::threshold_met) {
    text += ": " + std::string(to_string(decision.reason));
  }
  return text;
}

// "MemoryPressure DiskPressure", with a * after those that changed; "-Name*" for one that fell.
inline std::string reported(const Conditions& conditions) {
  std::string text;
  for (const ConditionStatus& one : conditions) {
    if (!one.status && !one.changed) continue;
    if (!text.empty()) text += " ";
    text += (one.status ? "" : "-") + std::string(to_string(one.condition));
    if (one.changed) text += "*";
  }
  return text;
}

// A node under one configuration: change `now`, then evaluate.
class Story {
 public:
  explicit Story(Config config) : config_(std::move(config)) {}

  std::string evaluate(MonotonicTime at) {
    now.at = at;
    Step next = step(config_, state_, now);
    state_ = std::move(next.state);
    decision_ = std::move(next.decision);
    return reported(decision_);
  }
  std::string evaluate(double seconds) { return evaluate(second(seconds)); }

  [[nodiscard]] const Decision& decision() const { return decision_; }
  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] std::string conditions() const { return reported(decision_.conditions); }
  [[nodiscard]] const Config& config() const { return config_; }

  Observation now;

 private:
  Config config_;
  State state_;
  Decision decision_;
};

}  // namespace forestall::policy
