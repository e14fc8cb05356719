// SPDX-License-Identifier: Apache-2.0
// A kill by the kernel's OOM killer: what it did, whether it was predicted, and why the agent had
// not acted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/ids.h"
#include "model/oom.h"
#include "model/process.h"

namespace forestall {

// A source's report of the kill; unknown values are absent.
struct OomKillEvent {
  MonotonicTime at;  // the kernel marked the victim
  ProcessId victim;  // start_ticks 0: unknown
  std::array<char, 16> comm{};
  std::uint32_t uid = 0;
  std::int32_t oom_score_adj = 0;
  CgroupId cgroup;   // of the victim; inode 0: unknown
  std::string path;  // of the victim's cgroup; empty: unknown
  std::optional<ProcessMemory> memory;
  std::optional<Pages> points;       // oom_badness in the domain
  std::optional<Pages> total_pages;  // of the domain
  // Nullopt: not reported. `constraint_deduced`: derived from the cgroup at its limit, not from the
  // kernel.
  std::optional<Constraint> constraint;
  bool constraint_deduced = false;
  CgroupId domain;          // with memcg: the cgroup at its limit; inode 0 otherwise
  std::string domain_path;  // of the domain's cgroup; empty: unknown
  std::optional<Bytes> domain_usage;
  std::optional<Bytes> domain_limit;
  // The allocating process: "invoked oom-killer".
  std::optional<ProcessId> killer;
  std::array<char, 16> killer_comm{};
  // It was killed because another process of its memory.oom.group, or of its mm, was selected.
  bool with_another = false;

  friend bool operator==(const OomKillEvent&, const OomKillEvent&) = default;
};

// Why the agent had not acted.
enum class Inaction : std::uint8_t {
  not_watched,      // no threshold covers the domain
  unread,           // its signal could not be computed
  below_threshold,  // never crossed: usage jumped past it, or the kernel ran out elsewhere
  in_grace,         // a soft threshold was met, within its grace period
  dry_run,          // the agent decides but does not signal
  no_victim,        // met, but no candidate, or all protected or tried
  too_fast,         // crossed, but the kernel acted first
  acting,           // a kill by the agent was running, its memory not yet back
  ours,             // the kernel selected a process that the agent had already signalled
  held_back,        // met, but a further kill would not have helped (policy/damage_limit.h)
  warn_only,        // the thresholds on the domain warn or throttle, and do not evict
  stopped,          // the agent did not run: it was stopped, frozen or hung, or got no CPU
};
[[nodiscard]] std::string_view to_string(Inaction inaction);

// The prediction in force at the time of the kill.
struct OomForecast {
  MonotonicTime at;  // of the scan
  OomVerdict verdict = OomVerdict::no_victim;
  std::optional<ProcessId> victim;  // predicted victim
  bool right = false;  // the predicted victim was killed, or died with the victim as predicted

  friend bool operator==(const OomForecast&, const OomForecast&) = default;
};

struct OomKill {
  OomKillEvent event;
  std::optional<OomForecast> forecast;  // nullopt: no prediction for the domain
  Inaction inaction = Inaction::not_watched;
  // With too_fast, stopped, acting, ours, dry_run and no_victim: time from the crossing of the
  // threshold to the kill. With in_grace: how long it was met.
  std::optional<Duration> since_crossing;
  // With stopped: for how long at least the agent had not run.
  std::optional<Duration> agent_away = std::nullopt;

  friend bool operator==(const OomKill&, const OomKill&) = default;
};

}  // namespace forestall
