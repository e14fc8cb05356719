// SPDX-License-Identifier: Apache-2.0
// The agent's status: the loop writes it, other threads copy it.
//
// As for metrics, the loop does not wait for readers: it only tries the lock, and otherwise updates
// the status with its next evaluation.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "exports/available_history.h"
#include "exports/ruleset_tally.h"
#include "exports/sink.h"
#include "model/config.h"
#include "model/stage.h"

namespace forestall::exports {

// One of the last recorded decisions or kernel kills.
struct StatusDecision {
  std::uint64_t sequence = 0;
  std::int64_t wall_time_ns = 0;
  Action action = Action::none;
  Reason reason = Reason::no_data;
  bool by_kernel = false;  // a kernel kill; then `victim` is a process
  std::string subject;     // of the driving threshold; empty: none
  std::string victim;      // empty: none
  bool dry_run = false;
  std::optional<KillState> state;  // nothing: no outcome yet, or none expected (dry run)
  Bytes freed;
  StageLengths stages{};
};

struct Status {
  std::optional<MonotonicTime> next_evaluation;  // nothing: not evaluated yet
  std::shared_ptr<const Config> config;
  std::vector<Evidence> evidence;
  std::size_t evidence_left_out = 0;
  // Seconds to the threshold, for the evidence at the same index: AvailableHistory.
  std::vector<std::optional<double>> seconds_to_threshold;
  std::vector<NextVictim> next_victims;
  Conditions conditions = kNoConditions;
  PodFactCounts pods;
  std::deque<StatusDecision> decisions;  // newest last
  std::vector<RulesetCounts> rulesets;   // in the order of the configuration
};

class StatusBoard final : public RecordSink, public EvaluationListener {
 public:
  static constexpr std::size_t kDecisionsMax = 16;
  static constexpr std::size_t kEvidenceMax = 64;

  // Loop's thread.
  void write(const Record& record) override;
  void evaluated(const Evaluation& evaluation) override;
  void pre_ranked(std::span<const NextVictim> next_victims) override;
  // The configuration in force from now on; published with the next evaluation.
  void set_config(const Config& config);

  // Any thread.
  [[nodiscard]] Status status() const;
  [[nodiscard]] std::vector<RulesetCounts> rulesets() const;

 private:
  std::deque<StatusDecision> decisions_;  // the loop's: the next content of the status
  std::shared_ptr<const Config> config_;
  AvailableHistory history_{kEvidenceMax};
  std::vector<NextVictim> next_victims_;
  RulesetTally rulesets_;

  mutable std::mutex mutex_;  // the loop only tries it
  Status shared_;
};

}  // namespace forestall::exports
