// SPDX-License-Identifier: Apache-2.0
// What rulesets remember from one evaluation to the next. Plain values, so that a replay can start
// in the middle of a recording.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace forestall::rulesets {

// A cgroup as a suspended kill remembers it.
struct CgroupRef {
  std::string path;
  std::uint64_t id = 0;

  friend bool operator==(const CgroupRef&, const CgroupRef&) = default;
};

// A kill that waits for a prekill hook.
struct HookWait {
  std::uint64_t run = 0;
  std::string hook;
  CgroupRef victim;
  std::vector<CgroupRef> next;  // the candidates after it, in order

  friend bool operator==(const HookWait&, const HookWait&) = default;
};

struct SenpaiCgroup {
  std::int64_t limit = 0;
  std::int64_t last_total = 0;  // microseconds
  std::int64_t cumulative = 0;
  std::int64_t ticks = 0;

  friend bool operator==(const SenpaiCgroup&, const SenpaiCgroup&) = default;
};

// A value of a cgroup at one evaluation.
struct TimedValue {
  std::chrono::nanoseconds time{0};
  std::int64_t value = 0;

  friend bool operator==(const TimedValue&, const TimedValue&) = default;
};

// What proactive reclaim remembers of a cgroup. Values are its stall time, in microseconds.
struct ReclaimedCgroup {
  TimedValue start;  // of the window in which the pressure is measured
  TimedValue last;   // at the last evaluation
  std::chrono::nanoseconds due{0};
  std::optional<std::chrono::nanoseconds> backs_off_until;

  friend bool operator==(const ReclaimedCgroup&, const ReclaimedCgroup&) = default;
};

// A setting of a cgroup that an action changed for a time.
struct HeldSetting {
  std::string path;
  std::int64_t before = 0;
  std::int64_t written = 0;
  std::chrono::nanoseconds until{0};

  friend bool operator==(const HeldSetting&, const HeldSetting&) = default;
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
  std::map<std::uint64_t, ReclaimedCgroup> reclaimed;
  std::optional<TimedValue> node_stall;  // at the last evaluation, microseconds

  friend bool operator==(const PluginState&, const PluginState&) = default;
};

// A run of a chain: what it was begun by.
struct ChainRun {
  std::string group;
  // Until then prekill hooks start and are waited for; nothing: the ruleset uses none.
  std::optional<std::chrono::nanoseconds> hook_deadline;

  friend bool operator==(const ChainRun&, const ChainRun&) = default;
};

struct RulesetState {
  std::vector<std::vector<PluginState>> groups;
  std::vector<PluginState> actions;
  std::optional<std::chrono::nanoseconds> pause_until;
  std::optional<std::size_t> suspended_at;  // the action
  ChainRun run;                             // of the suspended chain

  friend bool operator==(const RulesetState&, const RulesetState&) = default;
};

struct RuleState {
  std::uint64_t evaluations = 0;
  std::uint64_t hook_runs = 0;
  std::map<std::uint64_t, RulesetState> rulesets;  // by instance
  // By cgroup, for the cgroups that an action covered at the last evaluation.
  std::map<std::uint64_t, std::int64_t> average_usage;
  std::map<std::uint64_t, double> io_cost;

  friend bool operator==(const RuleState&, const RuleState&) = default;
};

}  // namespace forestall::rulesets
