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
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rulesets/decision.h"
#include "rulesets/observation.h"
#include "rulesets/program.h"

namespace forestall::rulesets {

struct RuleConfig {
  RuleProgram program;
  std::vector<IoDevice> devices;
  bool dry_run = false;  // all actions are dry
};

// What the caller has to do before the evaluation can continue.
struct WantedEffect {
  enum class Kind : std::uint8_t {
    kill,        // SIGKILL to all processes of the cgroup; the answer: at least one was found
    start_hook,  // start a prekill hook; the answer: it has finished
    poll_hook,   // the answer: it has finished
    restart,     // restart a systemd unit; the answer: it worked
  };

  Kind kind = Kind::kill;
  std::string target;          // cgroup or unit
  std::string hook;            // its name
  std::uint64_t hook_run = 0;  // identifies the invocation
};

// A cgroup as a suspended kill remembers it.
struct CgroupRef {
  std::string path;
  std::uint64_t id = 0;
};

// A kill that waits for a prekill hook.
struct HookWait {
  std::uint64_t run = 0;
  std::string hook;
  CgroupRef victim;
  std::vector<CgroupRef> next;  // the candidates after it, in order
};

struct SenpaiCgroup {
  std::int64_t limit = 0;
  std::int64_t last_total = 0;  // microseconds
  std::int64_t cumulative = 0;
  std::int64_t ticks = 0;
};

// A value of a cgroup at one evaluation.
struct TimedValue {
  std::chrono::nanoseconds time{0};
  std::int64_t value = 0;
};

// A setting of a cgroup that an action changed for a time.
struct HeldSetting {
  std::string path;
  std::int64_t before = 0;
  std::int64_t written = 0;
  std::chrono::nanoseconds until{0};
};

// What one plugin remembers; each kind uses its own part.
struct PluginState {
  std::optional<std::chrono::nanoseconds> since;  // the condition holds, unbroken
  float last_avg10 = 100;
  std::optional<std::int64_t> last_scanned;
  std::optional<std::chrono::nanoseconds> last_growth;
  std::optional<HookWait> hook;
  std::optional<std::uint64_t> last_run;         // the evaluation
  std::map<std::uint64_t, std::int64_t> pgscan;  // at the last run, by cgroup
  std::map<std::uint64_t, SenpaiCgroup> senpai;
  // By cgroup, the oldest first: what a window or a rate needs, and one value more.
  std::map<std::uint64_t, std::vector<TimedValue>> values;
  std::map<std::uint64_t, HeldSetting> held;  // by cgroup
};

// A run of a chain: what it was begun by.
struct ChainRun {
  std::string group;
  // Until then prekill hooks start and are waited for; nothing: the ruleset uses none.
  std::optional<std::chrono::nanoseconds> hook_deadline;
};

struct RulesetState {
  std::vector<std::vector<PluginState>> groups;
  std::vector<PluginState> actions;
  std::optional<std::chrono::nanoseconds> pause_until;
  std::optional<std::size_t> suspended_at;  // the action
  ChainRun run;                             // of the suspended chain
};

struct RuleState {
  std::uint64_t evaluations = 0;
  std::uint64_t hook_runs = 0;
  std::map<std::uint64_t, RulesetState> rulesets;  // by instance
  // By cgroup, for the cgroups that an action covered at the last evaluation.
  std::map<std::uint64_t, std::int64_t> average_usage;
  std::map<std::uint64_t, double> io_cost;
};

struct RuleStep {
  RuleState state;
  RuleDecision decision;
  // If set, state and decision are incomplete: repeat with one answer more.
  std::optional<WantedEffect> wanted;
};

[[nodiscard]] RuleStep step(const RuleConfig& config, const RuleState& state,
                            const RuleObservation& observed, const std::vector<bool>& answers);

}  // namespace forestall::rulesets
