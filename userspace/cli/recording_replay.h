// SPDX-License-Identifier: Apache-2.0
// A recording decided again: by the same configuration, which must come to the same bytes, or by
// another one, which shows what that would have done.
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

// By what is decided.
struct ReplayRules {
  std::optional<Config> config = std::nullopt;    // nothing: the recorded one, at each time
  std::optional<Ranking> ranking = std::nullopt;  // in place of that configuration's

  [[nodiscard]] bool as_recorded() const { return !config && !ranking; }
};

class RecordingReplay {
 public:
  struct Step {
    std::uint64_t look = 0;  // its number in the recording
    // When: its observation's time; after a reboot, at which the kernel's clock begins anew, as if
    // that had gone on.
    MonotonicTime at;
    Record looked;      // without its decision
    Decision decision;  // of the replay
    // How long ago the workloads were read; nothing: for this look, as far as they were needed.
    std::optional<Duration> age = std::nullopt;
    bool as_recorded = false;  // the same decision, byte for byte
    // The one that was recorded; nothing: it is the same, and was not unpacked.
    std::optional<Decision> recorded = std::nullopt;
  };

  // What did not come out as it was recorded, under the recorded configuration.
  struct Difference {
    std::uint64_t look = 0;
    MonotonicTime at;
    Decision recorded;
    Decision replayed;
  };

  RecordingReplay(RecordingInput input, ReplayRules rules);

  // The next look, decided; nothing at the end. Errors: the recording cannot be read.
  [[nodiscard]] Result<std::optional<Step>> next();

  [[nodiscard]] const ReplayRules& rules() const { return rules_; }
  [[nodiscard]] const RecordingInput& input() const { return input_; }
  [[nodiscard]] const ReplayFold& fold() const { return fold_; }
  [[nodiscard]] std::uint64_t same() const { return same_; }
  [[nodiscard]] std::uint64_t different() const { return different_; }
  [[nodiscard]] const std::optional<Difference>& first_difference() const { return first_; }
  // Of the different ones, those that end somebody else, or do something else.
  [[nodiscard]] std::uint64_t otherwise() const { return otherwise_; }
  // Keys at which the policy did not remember what the recorded one did.
  [[nodiscard]] std::uint64_t states_different() const { return states_different_; }
  // Of both policies; empty as long as they are one and nothing is different.
  [[nodiscard]] const Episodes& recorded() const { return recorded_; }
  [[nodiscard]] const Episodes& replayed() const { return replayed_; }

 private:
  // The last look that was decided.
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
  std::optional<RecordingInput::Item> ahead_;  // read already
  std::string boot_id_;                        // of the last key that began a run
  Duration shift_{0};                          // of this boot's times
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
