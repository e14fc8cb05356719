// SPDX-License-Identifier: Apache-2.0
// What an evaluation of rulesets did and requests, with what it compared.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/preference.h"

namespace forestall::rulesets {

enum class PluginResult : std::uint8_t { proceed, stop, suspended };
// "continue", "stop", "suspended".
[[nodiscard]] std::string_view to_string(PluginResult result);

struct RankedCgroup {
  std::string cgroup;
  Preference preference = Preference::normal;  // by extended attributes of the cgroup
  // What was compared after the preference, by name; nothing: a reading is missing, and the cgroup
  // comes after those of its preference.
  std::vector<std::pair<std::string_view, std::variant<std::int64_t, double>>> key;
};

// The children of a cgroup, ranked when the action descended into it.
struct DescentRanking {
  std::string cgroup;
  std::vector<RankedCgroup> ranking;
};

// not_needed: when the victim's hook ended, no group fired any more.
// backed_off, node_stalls: proactive reclaim pauses.
enum class AttemptOutcome : std::uint8_t {
  killed,
  failed,
  dry,
  hook,
  written,
  held,
  not_needed,
  backed_off,
  node_stalls,
};
[[nodiscard]] std::string_view to_string(AttemptOutcome outcome);

struct KillAttempt {
  std::string cgroup;
  AttemptOutcome outcome = AttemptOutcome::failed;
  // Of a write: what is written where.
  std::string_view file = {};
  std::int64_t value = 0;
  // Of a hook: its name, its run, whether it starts now, and until when the kill waits for it.
  std::string hook = {};
  std::uint64_t hook_run = 0;
  bool hook_starts = false;
  std::chrono::nanoseconds hook_until{0};
};

struct UnitRestart {
  std::string service;
  bool dry = false;
};

struct ActionRun {
  std::string name;
  PluginResult result = PluginResult::proceed;
  std::vector<RankedCgroup> ranking;
  std::vector<DescentRanking> descents;
  std::vector<KillAttempt> attempts;
  std::optional<UnitRestart> restart;  // that was attempted
};

struct RulesetRun {
  std::string name;
  std::string drop_in;               // the file; empty: of the configuration itself
  std::optional<std::string> group;  // the first that fired
  bool resumed = false;              // continues a chain that was suspended
  bool paused = false;               // actions wait for the end of a delay
  std::vector<ActionRun> detectors;  // kill actions that stand among the detectors
  std::vector<ActionRun> actions;    // those that ran
};

constexpr std::string_view kReclaimFile = "memory.reclaim";

// A write to a file of a cgroup, or to a setting of the host (`cgroup` is empty).
struct RuleWrite {
  std::string cgroup;
  std::string file;
  std::int64_t value = 0;  // kNoLimit: "max"
  std::optional<std::int64_t> timeout_us;
};

struct RuleKill {
  std::string cgroup;
  std::string reason;  // the plugin
  std::string ruleset;
  std::string group;
  bool dry = false;
};

// What an action only logs.
struct RuleMessage {
  std::string ruleset;
  std::string group;
  std::string text;
};

struct RuleDecision {
  std::chrono::nanoseconds time{0};
  std::vector<RulesetRun> rulesets;  // those that fired or ran
  std::vector<RuleWrite> writes;
  std::vector<RuleKill> kills;
  std::vector<UnitRestart> restarts;
  std::vector<RuleMessage> messages;
};

}  // namespace forestall::rulesets
