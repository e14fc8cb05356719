// SPDX-License-Identifier: Apache-2.0
// A kill by the kernel's OOM killer: what it did, whether we knew, and why we had not acted before.
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

// What a source saw of it; what it could not see is absent.
struct OomKillSighting {
  MonotonicTime at;  // the kernel marked the victim
  ProcessId victim;  // start_ticks 0: not known
  std::array<char, 16> comm{};
  std::uint32_t uid = 0;
  std::int32_t oom_score_adj = 0;
  CgroupId cgroup;   // of the victim; inode 0: not known
  std::string path;  // the same; empty: not known
  std::optional<ProcessMemory> memory;
  std::optional<Pages> points;       // oom_badness in the domain
  std::optional<Pages> total_pages;  // of the domain
  // Nothing: not told. `deduced` when it follows from who was at its limit, not from the kernel.
  std::optional<Constraint> constraint;
  bool constraint_deduced = false;
  CgroupId domain;          // with memcg: the cgroup at its limit; inode 0 otherwise
  std::string domain_path;  // the same; empty: not known
  std::optional<Bytes> domain_usage;
  std::optional<Bytes> domain_limit;
  // Who allocated: "invoked oom-killer".
  std::optional<ProcessId> killer;
  std::array<char, 16> killer_comm{};
  // It went because another of its memory.oom.group, or of its mm, was chosen.
  bool with_another = false;

  friend bool operator==(const OomKillSighting&, const OomKillSighting&) = default;
};

// Why the agent had not acted.
enum class Inaction : std::uint8_t {
  not_watched,      // no threshold is on the domain
  unread,           // its signal could not be computed
  below_threshold,  // it was never crossed: usage jumped past it, or the kernel ran out elsewhere
  in_grace,         // a soft threshold was met, within its grace period
  dry_run,          // the agent decides but does not signal
  nobody_to_kill,   // met, but no candidate, or all protected or tried
  too_fast,         // crossed, but the kernel was there first
  acting,           // a kill of ours was under way, its memory not yet back
  ours,             // the kernel chose whom we had signalled already
};
[[nodiscard]] std::string_view to_string(Inaction inaction);

// The prediction that was in force when it happened.
struct OomForesight {
  MonotonicTime at;  // of the scan
  OomVerdict verdict = OomVerdict::nobody;
  std::optional<ProcessId> victim;  // whom we expected
  bool right = false;               // that was the victim, or died with it as expected

  friend bool operator==(const OomForesight&, const OomForesight&) = default;
};

struct OomKill {
  OomKillSighting sighting;
  std::optional<OomForesight> foresight;  // nothing: no prediction was at hand for the domain
  Inaction inaction = Inaction::not_watched;
  // With too_fast, acting, ours, dry_run and nobody_to_kill: how long before it the threshold was
  // crossed. With in_grace: how long it was met.
  std::optional<Duration> since_crossing;

  friend bool operator==(const OomKill&, const OomKill&) = default;
};

}  // namespace forestall
