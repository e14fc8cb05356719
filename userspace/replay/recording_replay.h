// SPDX-License-Identifier: Apache-2.0
// Repeats the decisions of a recording: with the same configuration, which must give the same
// bytes, or with another one, which shows its effect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "intake/kubelet_settings.h"
#include "model/config.h"
#include "model/decision.h"
#include "replay/episodes.h"
#include "replay/last_seen.h"
#include "replay/recording_input.h"
#include "replay/replay_fold.h"
#include "replay/rule_coverage.h"

namespace forestall::replay {

// The rules of the replay.
struct ReplayRules {
  std::optional<Config> config = std::nullopt;  // nothing: the recorded one
  // Each setting overrides a key of that configuration.
  std::optional<intake::KubeletSettings> settings = std::nullopt;
  std::optional<Ranking> ranking = std::nullopt;  // the same

  [[nodiscard]] bool as_recorded() const { return !config && !settings && !ranking; }
};

class RecordingReplay {
 public:
  struct ReplayedStep {
    // Number of the evaluation in the recording. It counts on from run to run of the agent.
    std::uint64_t evaluation = 0;
    // Time of the observation. After a reboot it continues the time before it.
    MonotonicTime at;
    Record evaluated;   // without its decision
    Decision decision;  // of the replay
    // Age of the workload samples; nothing: read for this evaluation, as far as needed.
    std::optional<Duration> age = std::nullopt;
    // The first evaluation of another run of the agent: time since the previous evaluation.
    std::optional<Duration> restarted_after = std::nullopt;
    bool as_recorded = false;  // equal to the recorded decision, byte for byte
    // The recorded decision; nothing: equal, and not decoded.
    std::optional<Decision> recorded = std::nullopt;
  };

  // A decision that differs under the recorded configuration.
  struct Difference {
    std::uint64_t evaluation = 0;
    MonotonicTime at;
    Decision recorded;
    Decision replayed;
  };

  RecordingReplay(RecordingInput input, ReplayRules rules);

  // The next evaluation, decided; nothing at the end. Errors: the recording is not readable, or the
  // rules do not fit its configuration.
  [[nodiscard]] Result<std::optional<ReplayedStep>> next();

  [[nodiscard]] const ReplayRules& rules() const { return rules_; }
  [[nodiscard]] const RecordingInput& input() const { return input_; }
  [[nodiscard]] const ReplayFold& fold() const { return fold_; }
  [[nodiscard]] std::uint64_t same() const { return same_; }
  [[nodiscard]] std::uint64_t different() const { return different_; }
  [[nodiscard]] const std::optional<Difference>& first_difference() const { return first_; }
  // Different decisions with another action or another victim.
  [[nodiscard]] std::uint64_t otherwise() const { return otherwise_; }
  // Keys at which the policy state differs from the recorded one.
  [[nodiscard]] std::uint64_t states_different() const { return states_different_; }
  // Summaries of both policies; empty with the recorded policy.
  [[nodiscard]] const Episodes& recorded() const { return recorded_; }
  [[nodiscard]] const Episodes& replayed() const { return replayed_; }
  // Rulesets that could not be decided; complete at the end.
  [[nodiscard]] const RuleCoverage& coverage() const { return coverage_; }
  // Settings of the rules that are allowed but probably unintended.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // The last evaluation.
  struct LastEvaluation {
    MonotonicTime at;
    std::int64_t wall_time_ns = 0;
  };

  [[nodiscard]] Result<void> take_key(const messages::KeyEntry& key,
                                      const RecordingInput::InputEntry& item);
  void begin_run(const messages::KeyEntry& key);
  void note_boot(const messages::KeyEntry& key);
  [[nodiscard]] Result<ReplayedStep> take_evaluation(messages::EvaluationEntry evaluation);
  [[nodiscard]] Result<std::optional<RecordingInput::InputEntry>> next_item();
  [[nodiscard]] Result<void> sample_workloads_after();
  [[nodiscard]] Decision decide_anew(ReplayedStep& step);
  [[nodiscard]] Result<Config> config_of(const messages::KeyEntry& key);

  RecordingInput input_;
  ReplayRules rules_;
  Config recorded_config_;  // in force at the last key; only under other rules
  ReplayFold fold_;
  LastSeen seen_;
  RuleCoverage coverage_;  // only under other rules
  Episodes recorded_;
  Episodes replayed_;
  std::optional<RecordingInput::InputEntry> ahead_;  // read ahead
  std::string boot_id_;                              // of the last key that started a run
  Duration shift_{0};                                // added to this boot's times
  std::optional<LastEvaluation> last_;
  std::uint64_t last_number_ = 0;          // of the last evaluation
  std::uint64_t earlier_evaluations_ = 0;  // added to the numbers of this run
  bool restarted_ = false;  // no evaluation of this run of the agent was returned yet
  std::vector<std::string> warnings_;
  std::string bytes_;
  std::string recorded_bytes_;
  std::uint64_t same_ = 0;
  std::uint64_t different_ = 0;
  std::uint64_t otherwise_ = 0;
  std::uint64_t states_different_ = 0;
  std::optional<Difference> first_;
};

}  // namespace forestall::replay
