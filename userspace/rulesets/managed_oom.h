// SPDX-License-Identifier: Apache-2.0
// systemd-oomd's rules (src/oom/oomd-manager.c, oomd-util.c of systemd 252; 257 added a duration
// per cgroup): the ManagedOOM properties of systemd's units, oomd.conf, and what is killed.
//
// A fold like that of engine.h: an evaluation that needs the outcome of a kill ends with `wanted`,
// and is repeated with one answer more. Each observation is one evaluation of both monitors, swap
// first.
//
// Differences from systemd-oomd, none of which changes a victim: a monitored cgroup that cannot be
// read is tried again (systemd-oomd forgets it), a child whose memory.oom.group cannot be read does
// not hide the children after it, and equal candidates are ordered by path.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/rule_observation.h"
#include "rulesets/decision.h"

namespace forestall::rulesets {

// oomd.conf. Limits are in hundredths of a percent.
struct OomdConf {
  std::int64_t swap_used_limit = 9000;
  std::int64_t pressure_limit = 6000;
  std::chrono::microseconds pressure_duration = std::chrono::seconds(30);

  friend bool operator==(const OomdConf&, const OomdConf&) = default;
};

enum class ManagedOomProperty : std::uint8_t { swap, memory_pressure };

// One element of a message of PID 1 or of a user manager.
struct ManagedOomElement {
  bool kill = false;  // mode "kill"; otherwise "auto"
  std::string path = "/";
  ManagedOomProperty property = ManagedOomProperty::swap;
  std::uint32_t limit = 0;  // of 2^32 - 1; 0: the default
  std::optional<std::chrono::microseconds> duration;

  friend bool operator==(const ManagedOomElement&, const ManagedOomElement&) = default;
};

// A share of 2^32 - 1 in hundredths of a percent, as systemd rounds it.
[[nodiscard]] std::int64_t permyriad_of(std::uint32_t limit);

struct ManagedPressureRule {
  std::int64_t limit_permyriad = 0;
  std::chrono::microseconds duration{0};

  friend bool operator==(const ManagedPressureRule&, const ManagedPressureRule&) = default;
};

// The monitored cgroups, by path.
struct ManagedOomRules {
  std::set<std::string> swap;
  std::map<std::string, ManagedPressureRule> pressure;

  void apply(const ManagedOomElement& element, const OomdConf& conf);

  friend bool operator==(const ManagedOomRules&, const ManagedOomRules&) = default;
};

// ManagedOOMPreference, in the order of the ranking.
enum class ManagedPreference : std::uint8_t { none, avoid, omit };
// "none", "avoid", "omit".
[[nodiscard]] std::string_view to_string(ManagedPreference preference);

// By the attributes of the cgroup; whether its owner is trusted is for the caller to decide.
[[nodiscard]] ManagedPreference managed_preference(const Cgroup& cgroup);
// Whether the cgroup is `ancestor` or below it.
[[nodiscard]] bool is_within(std::string_view path, std::string_view ancestor);

struct ManagedCandidate {
  std::string cgroup;
  ManagedPreference preference = ManagedPreference::none;
  std::uint64_t swap = 0;         // bytes
  std::uint64_t pgscan = 0;       // pages
  std::uint64_t last_pgscan = 0;  // at the refresh before
  std::uint64_t usage = 0;        // bytes

  // A smaller total is that of a new cgroup, all of which counts.
  [[nodiscard]] std::uint64_t pgscan_rate() const;

  friend bool operator==(const ManagedCandidate&, const ManagedCandidate&) = default;
};

enum class ManagedRanking : std::uint8_t { swap, pgscan };

// The first is killed first. Without those to omit.
[[nodiscard]] std::vector<ManagedCandidate> rank_managed(std::vector<ManagedCandidate> candidates,
                                                         ManagedRanking by);

// Files that no cgroup of the input has. They are read as 0: the input leaves them out, and no
// kernel does. With any of them missing for one cgroup only, that cgroup is unreadable.
struct AbsentFiles {
  bool pressure = false;
  bool min = false;
  bool low = false;
  bool pgscan = false;
  bool oom_group = false;
};

struct ManagedOomConfig {
  OomdConf conf;
  bool dry_run = false;
  AbsentFiles absent;
};

// A cgroup that is monitored for pressure, as it was read last.
struct MonitoredCgroup {
  std::uint64_t pgscan = 0;
  std::optional<std::chrono::nanoseconds> above_since;  // its limit, unbroken
  std::optional<std::chrono::nanoseconds> last_reclaim;
};

struct ManagedOomState {
  ManagedOomRules rules;
  std::map<std::string, MonitoredCgroup> monitored;
  std::map<std::string, std::uint64_t> candidate_pgscan;  // at the last refresh
  std::optional<std::chrono::nanoseconds> last_action;    // of the pressure monitor

  void apply(const ManagedOomElement& element, const OomdConf& conf);
};

struct ManagedOomStep {
  ManagedOomState state;
  RuleDecision decision;
  // A cgroup to kill; the answer is whether a process was found. State and decision are incomplete
  // until then.
  std::optional<std::string> wanted_kill;
};

[[nodiscard]] ManagedOomStep managed_oom_step(const ManagedOomConfig& config,
                                              const ManagedOomState& state,
                                              const RuleObservation& observed,
                                              const std::vector<bool>& answers);

}  // namespace forestall::rulesets
