// SPDX-License-Identifier: Apache-2.0
// The fold over observations: step(configuration, state, observation) -> (state', decision).
//
// A chain of actions continues or ends with the outcome of a kill, so an evaluation may need
// outcomes. It then ends with `wanted`; the caller acts and repeats the evaluation from the same
// state with one answer more. So the fold remains a function of values: an observation and the
// answers reproduce the decision.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/rule_observation.h"
#include "model/rule_state.h"
#include "rulesets/decision.h"
#include "rulesets/program.h"

namespace forestall::rulesets {

// A chain waits at least this long for the result of a restart: oomd's default pause after one.
inline constexpr std::chrono::nanoseconds kRestartWait = std::chrono::seconds(15);
// A hook of a kill that belongs to no run of a chain may take this long: oomd's default.
inline constexpr std::chrono::nanoseconds kHookWait = std::chrono::seconds(5);

// A hook whose kill did not follow does not run again for the same victim for this long, or for the
// pause after the kill, if that is longer: the kill follows without it.
inline constexpr std::chrono::nanoseconds kHookKept = std::chrono::minutes(1);

struct RuleConfig {
  RuleProgram program;
  std::vector<IoDevice> devices;
  bool dry_run = false;  // all actions are dry
};

// What the caller has to do before the evaluation can continue.
struct WantedEffect {
  enum class Kind : std::uint8_t {
    kill,  // SIGKILL to all processes of the cgroup; the answer: at least one was found
    // Start a prekill hook; the answer: it has finished, or `not_now` as of a kill.
    start_hook,
    // The answer: it has finished; `not_now`: the wait is void, and the detectors decide again.
    poll_hook,
    restart,  // restart a systemd unit; the answer: it worked, or `begun`
    // The answer: a restart that was begun worked, or `begun` while it is under way.
    poll_restart,
  };

  Kind kind = Kind::kill;
  std::string target;          // cgroup or unit
  std::string hook;            // its name
  std::uint64_t hook_run = 0;  // identifies the invocation
  // Of poll_restart: when it was requested, and when it counts as failed.
  // Of start_hook: until when the kill waits for it at the latest.
  std::chrono::nanoseconds since{0};
  std::chrono::nanoseconds until{0};
  bool dry = false;  // of start_hook: the kill that it is for is dry
  // Of start_hook: it ran lately and does not run again; the answer: yes, or `not_now` if it still
  // runs.
  bool ran = false;
  std::uint64_t cgroup_id = 0;  // of poll_hook: of the victim
};

// What came of a wanted effect.
enum class EffectAnswer : std::uint8_t {
  no,
  yes,
  not_now,  // of a kill: none may be made now; the chain ends, and the ruleset does not pause
  // Of a restart: its result is not there yet. The chain ends; if the restart fails, the chain
  // continues with the next action at the evaluation that finds it.
  begun,
};
[[nodiscard]] constexpr EffectAnswer effect_answer(bool yes) {
  return yes ? EffectAnswer::yes : EffectAnswer::no;
}

struct RuleStep {
  RuleState state;
  RuleDecision decision;
  // If set, state and decision are incomplete: repeat with one answer more.
  std::optional<WantedEffect> wanted;
};

[[nodiscard]] RuleStep step(const RuleConfig& config, const RuleState& state,
                            const RuleObservation& observed,
                            const std::vector<EffectAnswer>& answers);

}  // namespace forestall::rulesets
