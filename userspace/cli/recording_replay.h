// SPDX-License-Identifier: Apache-2.0
// Repeats the decisions of a recording: with the same configuration, which must give the same
// bytes, or with another one, which shows its effect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/episodes.h"
#include "cli/last_seen.h"
#include "cli/recording_input.h"
#include "cli/replay_fold.h"
#include "model/config.h"
#include "model/decision.h"

namespace forestall::cli {

// The rules of the replay.
struct ReplayRules {
  std::optional<Config> config = std::nullopt;    // nothing: the recorded one
  std::optional<Ranking> ranking = std::nullopt;  // overrides that configuration's

  [[nodiscard]] bool as_recorded() const { return !config && !ranking; }
};

class RecordingReplay {
 public:
  struct Step {
    std::uint64_t look = 0;  // number of the evaluation in the recording
    // Time of the observation. After a reboot it continues the time before it.
    MonotonicTime at;
    Record looked;      // without its decision
    Decision decision;  // of the replay
    // Age of the workload samples; nothing: read for this evaluation, as far as needed.
    std::optional<Duration> age = std::nullopt;
    bool as_recorded = false;  // equal to the recorded decision, byte for byte
    // The recorded decision; nothing: equal, and not decoded.
    std::optional<Decision> recorded = std::nullopt;
  };

  // A decision that differs under the recorded configuration.
  struct Difference {
    std::uint64_t look = 0;
    MonotonicTime at;
    Decision recorded;
    Decision replayed;
  };

  RecordingReplay(RecordingInput input, ReplayRules rules);

  // The next evaluation, decided; nothing at the end. Errors: the recording is not readable.
  [[nodiscard]] Result<std::optional<Step>> next();

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

 private:
  // The last evaluation.
  struct LastLook {
    MonotonicTime at;
    std::int64_t wall_time_ns = 0;
  };

  void take_key(const api::KeyEntry& key, const RecordingInput::Item& item);
  void note_boot(const api::KeyEntry& key);
  [[nodiscard]] Result<Step> take_look(api::LookEntry look);
  [[nodiscard]] Result<std::optional<RecordingInput::Item>> next_item();
  [[nodiscard]] Result<void> take_survey_behind();
  [[nodiscard]] Decision decide_anew(Step& step);
  [[nodiscard]] Config config_of(const api::KeyEntry& key) const;

  RecordingInput input_;
  ReplayRules rules_;
  ReplayFold fold_;
  LastSeen seen_;
  Episodes recorded_;
  Episodes replayed_;
  std::optional<RecordingInput::Item> ahead_;  // read ahead
  std::string boot_id_;                        // of the last key that started a run
  Duration shift_{0};                          // added to this boot's times
  std::optional<LastLook> last_;
  std::string bytes_;
  std::string recorded_bytes_;
  std::uint64_t same_ = 0;
  std::uint64_t different_ = 0;
  std::uint64_t otherwise_ = 0;
  std::uint64_t states_different_ = 0;
  std::optional<Difference> first_;
};

}  // namespace forestall::cli
