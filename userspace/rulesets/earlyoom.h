// SPDX-License-Identifier: Apache-2.0
// earlyoom's rule (main.c, kill.c): when the memory that is available and the free swap are both
// at or below a level, the process with the highest score gets the level's signal.
//
// Numbers are computed as earlyoom computes them, in doubles and in KiB, so that thresholds are met
// at the same reading.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace forestall::rulesets {

// 1.7 as in Debian 12, and 1.9.
enum class EarlyoomVersion : std::uint8_t { v1_7, v1_9 };

// Of /proc/meminfo, KiB.
struct EarlyoomMemory {
  std::int64_t total = 0;
  std::int64_t available = 0;
  std::int64_t anon_pages = 0;  // used from 1.8 on
  std::int64_t swap_total = 0;
  std::int64_t swap_free = 0;
};

struct EarlyoomProcess {
  std::int64_t pid = 0;
  std::int64_t ppid = 0;
  std::int64_t uid = 0;
  std::string comm;
  std::int64_t oom_score = 0;
  std::int64_t oom_score_adj = 0;
  std::int64_t rss_kib = 0;
  // Whether `comm` matches the regular expressions of the options.
  bool preferred = false;
  bool avoided = false;
  bool ignored = false;
};

// Percent of memory and of swap.
struct EarlyoomThresholds {
  double mem_term = 10;
  double mem_kill = 5;
  double swap_term = 10;
  double swap_kill = 5;

  friend bool operator==(const EarlyoomThresholds&, const EarlyoomThresholds&) = default;
};

struct EarlyoomOptions {
  EarlyoomVersion version = EarlyoomVersion::v1_9;
  EarlyoomThresholds thresholds;
  std::optional<std::string> prefer;  // regular expressions of comm
  std::optional<std::string> avoid;
  std::optional<std::string> ignore;
  bool ignore_root_user = false;
  bool sort_by_rss = false;
  bool process_group = false;  // the signal is for the victim's process group
  bool dry_run = false;
  bool notify_dbus = false;
  std::optional<std::string> program_before;  // -P
  std::optional<std::string> program_after;   // -N
  bool raise_priority = false;
  bool debug = false;
  bool syslog = false;
  std::int64_t report_interval_ms = 1000;  // 0: no reports
};

// What is available, in percent. Memory is a share of MemTotal, and from 1.8 on of MemAvailable and
// AnonPages together. Without swap, 0 % of it are free.
struct EarlyoomAvailable {
  double memory = 0;
  double swap = 0;
};
// REQUIRES: what `memory` is a share of is above 0.
[[nodiscard]] EarlyoomAvailable earlyoom_available(const EarlyoomMemory& memory,
                                                   EarlyoomVersion version);
// KiB, of which EarlyoomAvailable::memory is a share.
[[nodiscard]] std::int64_t earlyoom_memory_base(const EarlyoomMemory& memory,
                                                EarlyoomVersion version);

enum class EarlyoomSignal : std::uint8_t { none, term, kill };
// "none", "SIGTERM", "SIGKILL".
[[nodiscard]] std::string_view to_string(EarlyoomSignal signal);
[[nodiscard]] EarlyoomSignal earlyoom_signal(const EarlyoomAvailable& available,
                                             const EarlyoomThresholds& thresholds);

// The score or, with --sort-by-rss, the KiB by which the process is compared.
struct EarlyoomRank {
  std::int64_t score = 0;
  std::int64_t rss_kib = 0;
};
[[nodiscard]] EarlyoomRank earlyoom_rank(const EarlyoomProcess& process,
                                         const EarlyoomOptions& options);

// The index of the process to end, in the order in which /proc lists them; nullopt if none may be.
[[nodiscard]] std::optional<std::size_t> earlyoom_victim(std::span<const EarlyoomProcess> processes,
                                                         const EarlyoomOptions& options);

// Time until the next reading, 100 to 1000 ms.
[[nodiscard]] std::int64_t earlyoom_sleep_ms(const EarlyoomMemory& memory,
                                             const EarlyoomOptions& options);

}  // namespace forestall::rulesets
