// SPDX-License-Identifier: Apache-2.0
// What rulesets decide on: host and cgroups at one time. An offline command reads it from a file
// (intake/rule_observations.h); an agent fills it from its readers. A reading that is unknown is
// absent, never zero.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/ruleset.h"

namespace forestall::rulesets {

// A limit of "max".
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// One line of a pressure file. Averages are percent, as floats, like oomd's.
struct PressureLine {
  float avg10 = 0;
  float avg60 = 0;
  float avg300 = 0;
  std::optional<std::int64_t> total_us;

  friend bool operator==(const PressureLine&, const PressureLine&) = default;
};

struct PressureFile {
  std::optional<PressureLine> some;
  std::optional<PressureLine> full;

  friend bool operator==(const PressureFile&, const PressureFile&) = default;
};

// Keys of memory.stat; bytes, and pages for pgscan.
struct MemoryStatReading {
  std::optional<std::int64_t> anon;
  std::optional<std::int64_t> active_anon;
  std::optional<std::int64_t> inactive_anon;
  std::optional<std::int64_t> active_file;
  std::optional<std::int64_t> inactive_file;
  std::optional<std::int64_t> pgscan;
  std::optional<std::int64_t> refaults;  // workingset_refault_anon + workingset_refault_file

  friend bool operator==(const MemoryStatReading&, const MemoryStatReading&) = default;
};

// Counters of io.stat for one device; absent keys count nothing.
struct DeviceIo {
  std::string device;  // "8:0"
  std::int64_t rbytes = 0;
  std::int64_t wbytes = 0;
  std::int64_t rios = 0;
  std::int64_t wios = 0;
  std::int64_t dbytes = 0;
  std::int64_t dios = 0;

  friend bool operator==(const DeviceIo&, const DeviceIo&) = default;
};

struct Cgroup {
  std::string path;  // from the root, "/": without the mount
  // Differs for a cgroup that was removed and created again.
  std::uint64_t id = 0;
  std::uint32_t uid = 0;  // owner of the directory

  // Bytes; kNoLimit for "max".
  std::optional<std::int64_t> current;
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> low;
  std::optional<std::int64_t> high;
  std::optional<std::int64_t> high_tmp;
  std::optional<std::int64_t> max;
  std::optional<std::int64_t> swap_current;
  std::optional<std::int64_t> swap_max;

  std::optional<MemoryStatReading> stat;
  std::optional<PressureFile> memory_pressure;
  std::optional<PressureFile> io_pressure;
  std::optional<PressureFile> cpu_pressure;
  std::optional<std::vector<DeviceIo>> io;
  std::optional<std::int64_t> dying_descendants;
  std::optional<bool> oom_group;
  std::optional<bool> populated;
  std::optional<bool> frozen;                               // cgroup.freeze
  bool has_reclaim = false;                                 // memory.reclaim exists
  std::vector<std::pair<std::string, std::string>> xattrs;  // names and values

  [[nodiscard]] const std::string* xattr(std::string_view name) const;

  friend bool operator==(const Cgroup&, const Cgroup&) = default;
};

// Bytes, unless stated.
struct Host {
  std::optional<std::int64_t> mem_total;
  std::optional<std::int64_t> mem_free;
  std::optional<std::int64_t> mem_available;
  std::optional<std::int64_t> swap_total;  // /proc/meminfo
  std::optional<std::int64_t> swap_free;
  std::optional<std::int64_t> swaps_total;  // the sum of /proc/swaps
  std::optional<std::int64_t> swaps_used;
  std::optional<std::int64_t> swappiness;
  std::optional<double> swapout_bps60;  // moving averages, bytes per second
  std::optional<double> swapout_bps300;

  // From /proc/swaps, else from /proc/meminfo: both count the same.
  [[nodiscard]] std::optional<std::int64_t> total_swap() const;
  [[nodiscard]] std::optional<std::int64_t> used_swap() const;

  friend bool operator==(const Host&, const Host&) = default;
};

struct RuleObservation {
  std::chrono::nanoseconds time{0};  // since any fixed moment
  Host host;
  // All directories: sorted by path, each parent present. The root is "/".
  std::vector<Cgroup> cgroups;
  // Some cgroups are missing: they could not be read, or are more than a reader accepts. What is
  // not found may then exist.
  bool incomplete = false;
  // Cgroups of the agent and of pid 1: neither they nor those around them are killed.
  std::vector<std::string> spared;
  // Names of rulesets, sorted, of which no group can fire now: what only they need was not read
  // (rulesets/reading_plan.h).
  std::vector<std::string> deferred;

  [[nodiscard]] const Cgroup* find(std::string_view path) const;
  [[nodiscard]] bool is_deferred(const std::string& ruleset) const;
  // Sorted by path.
  [[nodiscard]] std::vector<const Cgroup*> children(const Cgroup& parent) const;
  // Nothing for the root.
  [[nodiscard]] const Cgroup* parent(const Cgroup& cgroup) const;
  // memory.current; of the root MemTotal - MemFree.
  [[nodiscard]] std::optional<std::int64_t> usage(const Cgroup& cgroup) const;

  friend bool operator==(const RuleObservation&, const RuleObservation&) = default;
};

[[nodiscard]] const std::optional<PressureFile>& pressure_file(const Cgroup& cgroup,
                                                               PressureResource resource);

[[nodiscard]] inline bool is_root(const Cgroup& cgroup) {
  return cgroup.path == "/";
}

}  // namespace forestall::rulesets
