// SPDX-License-Identifier: Apache-2.0
// A ruleset as it was configured: groups of detectors, and a chain of actions. The plugins are
// those of oomd 0.5.0, with its arguments, and Forestall's own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace forestall::rulesets {

// Cgroups by path from the root, each component a glob.
struct CgroupPattern {
  std::vector<std::string> components;  // empty: the root

  friend bool operator==(const CgroupPattern&, const CgroupPattern&) = default;
};

using CgroupPatterns = std::vector<CgroupPattern>;

enum class PressureResource : std::uint8_t { memory, io, cpu };

// Bytes, or a percentage of a total that is known only when the rule is evaluated.
struct SizeOrPercent {
  bool is_percent = false;
  std::int64_t value = 0;

  friend bool operator==(const SizeOrPercent&, const SizeOrPercent&) = default;
};

// Whole seconds, as in the configuration; negative durations are always over.
struct PressureAbove {
  CgroupPatterns cgroups;
  PressureResource resource = PressureResource::memory;
  std::int64_t threshold = 0;  // percent
  std::int64_t duration = 0;
  // Of pressure_rising_beyond: pressure that falls faster does not fire.
  std::optional<float> fast_fall_ratio;

  friend bool operator==(const PressureAbove&, const PressureAbove&) = default;
};

struct MemoryAbove {
  CgroupPatterns cgroups;
  SizeOrPercent threshold;
  bool anon = false;  // compare memory.stat's anon in place of memory.current
  bool swap = false;  // or memory.swap.current; percentages are then of all swap
  std::int64_t duration = 0;
  bool debug = false;  // here and below: what oomd logs; it decides nothing

  friend bool operator==(const MemoryAbove&, const MemoryAbove&) = default;
};

struct MemoryReclaim {
  CgroupPatterns cgroups;
  std::int64_t duration = 0;

  friend bool operator==(const MemoryReclaim&, const MemoryReclaim&) = default;
};

struct SwapFree {
  std::int64_t percent = 0;

  friend bool operator==(const SwapFree&, const SwapFree&) = default;
};

struct Exists {
  CgroupPatterns cgroups;
  bool negate = false;
  bool debug = false;

  friend bool operator==(const Exists&, const Exists&) = default;
};

struct DyingDescendants {
  CgroupPatterns cgroups;
  std::int64_t count = 0;
  bool at_most = true;  // otherwise: more than
  bool debug = false;

  friend bool operator==(const DyingDescendants&, const DyingDescendants&) = default;
};

struct CgroupOverview {
  CgroupPatterns cgroups;
  bool always = false;

  friend bool operator==(const CgroupOverview&, const CgroupOverview&) = default;
};

// Forestall's own detectors. Durations are whole seconds here too.

// The cgroup under the highest pressure, by the compared value or by oomd's weights.
struct PressureOver {
  enum class Average : std::uint8_t { avg10, avg60, avg300, window };

  CgroupPatterns cgroups;
  PressureResource resource = PressureResource::memory;
  bool some = false;  // otherwise full
  Average measure = Average::avg10;
  std::int64_t window = 0;  // of Average::window
  double threshold = 0;     // percent
  std::int64_t duration = 0;
  // Pressure fires only while its 10 s average is above the threshold and at least this share of
  // the last one.
  std::optional<float> falling_at_most_to;
  bool weighted = false;

  friend bool operator==(const PressureOver&, const PressureOver&) = default;
};

struct AvailableBelow {
  bool swap = false;  // otherwise MemAvailable
  SizeOrPercent threshold;
  std::int64_t duration = 0;

  friend bool operator==(const AvailableBelow&, const AvailableBelow&) = default;
};

// Any of the cgroups changes faster than a limit per second.
struct RateAbove {
  enum class Of : std::uint8_t { usage, scans, refaults };

  CgroupPatterns cgroups;
  Of of = Of::usage;
  std::int64_t threshold = 0;  // bytes or pages per second
  std::int64_t over = 10;

  friend bool operator==(const RateAbove&, const RateAbove&) = default;
};

// Whose extended attributes come before the key of a kill. systemd: those of ManagedOOMPreference;
// candidates are then all leaves of the tree together (with `recursive`), and a pause after a kill
// holds for all such rulesets with this order, as in systemd-oomd.
enum class PreferenceSource : std::uint8_t { none, oomd, systemd };

enum class KillBy : std::uint8_t { memory_size_or_growth, swap_usage, pressure, io_cost, pg_scan };

struct Kill {
  KillBy by = KillBy::memory_size_or_growth;
  CgroupPatterns cgroups;
  bool recursive = false;
  std::optional<std::int64_t> post_action_delay;  // seconds; in place of the ruleset's
  bool dry = false;
  bool always_continue = false;
  bool debug = false;
  PreferenceSource preference = PreferenceSource::oomd;

  // kill_by_memory_size_or_growth
  std::int64_t size_threshold = 50;  // percent of the sum
  std::int64_t growing_size_percentile = 80;
  double min_growth_ratio = 1.25;
  // kill_by_swap_usage
  SizeOrPercent swap_threshold{false, 1};
  // kill_by_pressure
  PressureResource resource = PressureResource::memory;

  friend bool operator==(const Kill&, const Kill&) = default;
};

struct RestartUnit {
  std::string service;
  std::int64_t post_action_delay = 15;  // seconds, before that of the ruleset
  bool dry = false;

  friend bool operator==(const RestartUnit&, const RestartUnit&) = default;
};

struct Senpai {
  CgroupPatterns cgroups;
  std::int64_t limit_min_bytes = 100LL << 20;
  std::int64_t limit_max_bytes = 10LL << 30;
  std::int64_t interval = 6;  // evaluations
  std::int64_t pressure_ms = 10;
  double pressure_pct = 0.1;
  double io_pressure_pct = 0.1;
  double max_probe = 0.01;
  double max_backoff = 1.0;
  double coeff_probe = 10;
  double coeff_backoff = 20;
  bool immediate_backoff = false;
  std::int64_t memory_high_timeout_ms = 0;
  double swap_threshold = 0.8;
  std::int64_t swapout_bps_threshold = 1 << 20;
  bool swap_validation = false;
  bool modulate_swappiness = false;
  std::int64_t log_interval = 60;  // evaluations; decides nothing

  friend bool operator==(const Senpai&, const Senpai&) = default;
};

// Chain control: `continue` and `stop`.
struct Always {
  bool proceed = true;

  friend bool operator==(const Always&, const Always&) = default;
};

// Forestall's own actions on cgroups; all of them let the chain continue.
struct ReclaimMemory {
  CgroupPatterns cgroups;
  SizeOrPercent amount;  // of the usage
  bool dry = false;

  friend bool operator==(const ReclaimMemory&, const ReclaimMemory&) = default;
};

// Reclaims a little at a time while the pressure of a cgroup is below a target.
struct ProactiveReclaim {
  CgroupPatterns cgroups;
  double pressure = 0.1;              // target, percent of time with some stalled task
  std::int64_t every = 6;             // seconds
  double step = 1;                    // percent of the usage
  std::int64_t write_max = 32 << 20;  // bytes
  std::int64_t floor = 100LL << 20;   // bytes
  std::int64_t back_off = 30;         // seconds
  double node_pressure = 5;           // percent of time with all tasks stalled
  double swap_used_max = 80;          // percent
  bool dry = false;

  friend bool operator==(const ProactiveReclaim&, const ProactiveReclaim&) = default;
};

// As the name of a Plugin, and of the key in the configuration.
inline constexpr std::string_view kProactiveReclaim = "proactiveReclaim";

// Sets memory.high, or freezes, until `duration` seconds have passed since the last run.
struct Throttle {
  CgroupPatterns cgroups;
  SizeOrPercent high;  // of the usage
  std::int64_t duration = 0;
  bool dry = false;

  friend bool operator==(const Throttle&, const Throttle&) = default;
};

struct Freeze {
  CgroupPatterns cgroups;
  std::int64_t duration = 0;
  bool dry = false;

  friend bool operator==(const Freeze&, const Freeze&) = default;
};

struct LogAction {
  std::string text;

  friend bool operator==(const LogAction&, const LogAction&) = default;
};

using PluginArguments = std::variant<Always, PressureAbove, MemoryAbove, MemoryReclaim, SwapFree,
                                     Exists, DyingDescendants, CgroupOverview, Kill, RestartUnit,
                                     Senpai, PressureOver, AvailableBelow, RateAbove, ReclaimMemory,
                                     ProactiveReclaim, Throttle, Freeze, LogAction>;

struct Plugin {
  std::string name;  // as configured: "pressure_above"
  PluginArguments arguments;

  friend bool operator==(const Plugin&, const Plugin&) = default;
};

struct DetectorGroup {
  std::string name;
  std::vector<Plugin> plugins;

  friend bool operator==(const DetectorGroup&, const DetectorGroup&) = default;
};

struct Ruleset {
  std::string name;
  bool silence_engine = false;
  bool silence_plugins = false;
  std::int64_t post_action_delay = 15;    // seconds
  std::int64_t prekill_hook_timeout = 5;  // seconds
  bool disable_on_drop_in = false;
  bool drop_in_detectors = false;  // a drop-in may replace them
  bool drop_in_actions = false;
  std::vector<DetectorGroup> groups;  // any of them fires; all plugins of a group
  std::vector<Plugin> actions;

  friend bool operator==(const Ruleset&, const Ruleset&) = default;
};

// What runs before a kill of a cgroup that matches. With neither a program nor a socket it is a
// line in the log, as oomd's dummy_prekill_hook.
struct PrekillHook {
  std::string name;
  CgroupPatterns cgroups;
  std::string program;                 // absolute path
  std::vector<std::string> arguments;  // of the program
  std::string socket;                  // absolute path
  std::string log;                     // the line

  [[nodiscard]] bool only_logs() const { return program.empty() && socket.empty(); }

  friend bool operator==(const PrekillHook&, const PrekillHook&) = default;
};

// A device whose io.stat counts, and what its operations cost.
struct IoDevice {
  std::string device;  // "8:0"
  // Per read operation, byte read, write operation, byte written, discard, byte discarded.
  std::array<double, 6> cost{};

  friend bool operator==(const IoDevice&, const IoDevice&) = default;
};

}  // namespace forestall::rulesets
