// SPDX-License-Identifier: Apache-2.0
// What a ruleset did in one step of the policy, with what it compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace forestall {

// How an action leaves its chain.
enum class ChainStep : std::uint8_t {
  proceed,    // the next action follows
  stop,       // the chain ends, and the ruleset pauses
  suspended,  // the chain continues here at the next evaluation
};
[[nodiscard]] std::string_view to_string(ChainStep step);

enum class RuleOutcome : std::uint8_t {
  killed,             // it is the victim of this step
  dry_run,            // it would have been
  written,            // a setting was written
  held,               // another kill is decided or in progress: no kill now
  kill_limit,         // Config::kill_limit allows no kill now
  is_protected,       // never killed; the next candidate follows
  kill_failed,        // a kill was tried before, and failed
  empty,              // it has no processes
  restart_requested,  // of a unit, from systemd
  hook_requested,     // a prekill hook starts, and the kill waits for it
  hook_pending,       // the kill still waits
  backed_off,         // proactive reclaim pauses: its pressure is above the target
  node_stalls,        // proactive reclaim pauses: all tasks of the node stall
};
[[nodiscard]] std::string_view to_string(RuleOutcome outcome);

struct RuleRanked {
  std::string cgroup;
  std::string preference;                           // prefer, normal or avoid
  std::vector<std::pair<std::string, double>> key;  // compared in this order; empty: unknown

  friend bool operator==(const RuleRanked&, const RuleRanked&) = default;
};

struct RuleAttempt {
  std::string cgroup;
  RuleOutcome outcome = RuleOutcome::killed;
  // Of a write: the file, and the bytes or 1 to freeze.
  std::string file = {};
  std::int64_t value = 0;
  // Of a restart; then `cgroup` is empty. With neither, it is a kill.
  std::string unit = {};
  // Of a kill that waits for a prekill hook: its name, its run, and when the wait ends.
  std::string hook = {};
  std::uint64_t hook_run = 0;
  MonotonicTime hook_until = {};

  friend bool operator==(const RuleAttempt&, const RuleAttempt&) = default;
};

struct RuleActionReport {
  std::string name;
  ChainStep step = ChainStep::proceed;
  std::vector<RuleRanked> ranking;  // the first ones
  std::vector<RuleAttempt> attempts;

  friend bool operator==(const RuleActionReport&, const RuleActionReport&) = default;
};

struct RuleReport {
  std::string name;                  // of the ruleset
  std::optional<std::string> group;  // the first that fired
  bool paused = false;               // no action runs until the end of a pause
  bool resumed = false;              // continues a chain that was suspended
  std::vector<RuleActionReport> actions;
  std::vector<std::string> log;  // what its actions only log

  friend bool operator==(const RuleReport&, const RuleReport&) = default;
};

}  // namespace forestall
