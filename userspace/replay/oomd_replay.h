// SPDX-License-Identifier: Apache-2.0
// oomd's rulesets on the host that a file of observations describes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "intake/oomd_config.h"
#include "intake/rule_observations.h"
#include "rulesets/engine.h"

namespace forestall::replay {

// What became of a changed file of the directory of drop-ins.
struct DropInResult {
  std::string file;
  std::string error;  // empty: accepted
};

class OomdReplay {
 public:
  // `directory` is that of the drop-ins, for messages.
  OomdReplay(intake::OomdConfig config, std::string directory,
             std::vector<rulesets::IoDevice> devices, bool dry_run);

  // A file of the directory is new or changed, or gone if it has no text. A file with mistakes
  // changes nothing: its earlier version remains.
  [[nodiscard]] DropInResult apply(const std::string& name, const std::optional<std::string>& text);

  // Answers kills and hooks from the file, and notes there what was written.
  [[nodiscard]] rulesets::RuleDecision evaluate(const intake::ObservationLine& line,
                                                intake::RuleObservations& observations);

 private:
  bool answer(const rulesets::WantedEffect& effect, const intake::ObservationLine& line,
              intake::RuleObservations& observations);

  const std::vector<rulesets::Ruleset> base_;
  const std::string directory_;
  rulesets::RuleConfig rules_;
  rulesets::RuleState state_;
  std::map<std::uint64_t, std::chrono::nanoseconds> hook_ends_;
};

}  // namespace forestall::replay
