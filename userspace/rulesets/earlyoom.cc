// SPDX-License-Identifier: Apache-2.0
#include "rulesets/earlyoom.h"

#include <algorithm>

namespace forestall::rulesets {
namespace {

constexpr std::int64_t kScoreOfMatch = 300;
constexpr std::int64_t kRssOfMatch = 3145728;  // KiB
constexpr std::int64_t kNeverKilled = -1000;   // oom_score_adj
constexpr std::int64_t kKthreadd = 2;
// The score and RSS of 1.8 and later while there is no victim.
constexpr std::int64_t kNotSet = -9999;

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) * 100 / static_cast<double>(whole);
}

bool may_be_victim(const EarlyoomProcess& process, const EarlyoomOptions& options) {
  // A negative score cannot be read from /proc; earlyoom takes it for an error.
  if (process.pid <= 1 || process.oom_score < 0 || process.ignored) return false;
  if (process.oom_score_adj == kNeverKilled) return false;
  if (options.version == EarlyoomVersion::v1_7) return process.rss_kib != 0;
  if (process.pid == kKthreadd || process.ppid == kKthreadd) return false;
  return !(options.ignore_root_user && process.uid == 0);
}

// Whether `first` is above `second`; equal ones are decided by `first_then`.
bool above(std::int64_t first, std::int64_t second, std::int64_t first_then,
           std::int64_t second_then) {
  return first != second ? first > second : first_then > second_then;
}

// Two processes are compared by RSS only if both have some: the main thread of a process whose
// other threads still hold memory may be a zombie without any.
bool is_larger(const EarlyoomRank& candidate, const EarlyoomRank& victim, bool sort_by_rss) {
  if (sort_by_rss && candidate.rss_kib > 0 && victim.rss_kib > 0) {
    return above(candidate.rss_kib, victim.rss_kib, candidate.score, victim.score);
  }
  return above(candidate.score, victim.score, candidate.rss_kib, victim.rss_kib);
}

// Truncated, and 0 if the threshold is met.
std::int64_t headroom(double kib) {
  return std::max<std::int64_t>(static_cast<std::int64_t>(kib), 0);
}

}  // namespace

std::string_view to_string(EarlyoomSignal signal) {
  switch (signal) {
    case EarlyoomSignal::none: return "none";
    case EarlyoomSignal::term: return "SIGTERM";
    case EarlyoomSignal::kill: return "SIGKILL";
  }
  return "";
}

std::int64_t earlyoom_memory_base(const EarlyoomMemory& memory, EarlyoomVersion version) {
  return version == EarlyoomVersion::v1_7 ? memory.total : memory.available + memory.anon_pages;
}

EarlyoomAvailable earlyoom_available(const EarlyoomMemory& memory, EarlyoomVersion version) {
  EarlyoomAvailable available;
  available.memory = share(memory.available, earlyoom_memory_base(memory, version));
  if (memory.swap_total > 0) available.swap = share(memory.swap_free, memory.swap_total);
  return available;
}

EarlyoomSignal earlyoom_signal(const EarlyoomAvailable& available,
                               const EarlyoomThresholds& thresholds) {
  if (available.memory <= thresholds.mem_kill && available.swap <= thresholds.swap_kill) {
    return EarlyoomSignal::kill;
  }
  if (available.memory <= thresholds.mem_term && available.swap <= thresholds.swap_term) {
    return EarlyoomSignal::term;
  }
  return EarlyoomSignal::none;
}

EarlyoomRank earlyoom_rank(const EarlyoomProcess& process, const EarlyoomOptions& options) {
  EarlyoomRank rank{process.oom_score, process.rss_kib};
  const std::int64_t direction = (process.preferred ? 1 : 0) - (process.avoided ? 1 : 0);
  if (options.sort_by_rss) {
    rank.rss_kib += direction * kRssOfMatch;
  } else {
    rank.score += direction * kScoreOfMatch;
  }
  return rank;
}

std::optional<std::size_t> earlyoom_victim(std::span<const EarlyoomProcess> processes,
                                           const EarlyoomOptions& options) {
  // 1.7 begins at a score of 0, so that an avoided process below it is never the victim.
  EarlyoomRank best =
      options.version == EarlyoomVersion::v1_7 ? EarlyoomRank{} : EarlyoomRank{kNotSet, kNotSet};
  std::optional<std::size_t> victim;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (!may_be_victim(processes[i], options)) continue;
    const EarlyoomRank rank = earlyoom_rank(processes[i], options);
    if (!is_larger(rank, best, options.sort_by_rss)) continue;
    best = rank;
    victim = i;
  }
  return victim;
}

std::int64_t earlyoom_sleep_ms(const EarlyoomMemory& memory, const EarlyoomOptions& options) {
  constexpr std::int64_t kMemoryFill = 6000;  // KiB/ms
  constexpr std::int64_t kSwapFill = 800;     // KiB/ms
  const EarlyoomAvailable available = earlyoom_available(memory, options.version);
  const double above_memory = available.memory - options.thresholds.mem_term;
  const double above_swap = available.swap - options.thresholds.swap_term;
  std::int64_t ms = 0;
  if (options.version == EarlyoomVersion::v1_7) {
    const std::int64_t memory_mib = memory.total / 1024;
    const std::int64_t swap_mib = memory.swap_total / 1024;
    ms = headroom(above_memory * 10 * static_cast<double>(memory_mib)) / kMemoryFill +
         headroom(above_swap * 10 * static_cast<double>(swap_mib)) / kSwapFill;
  } else {
    const auto memory_kib = static_cast<double>(earlyoom_memory_base(memory, options.version));
    const auto swap_kib = static_cast<double>(memory.swap_total);
    ms = headroom(above_memory * memory_kib / 100) / kMemoryFill +
         headroom(above_swap * swap_kib / 100) / kSwapFill;
  }
  return std::clamp<std::int64_t>(ms, 100, 1000);
}

}  // namespace forestall::rulesets
