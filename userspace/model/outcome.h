// SPDX-License-Identifier: Apache-2.0
// An outcome: what the kill ladder did for one decision, attempt by attempt, with the time of each
// stage. Times of stages that were not reached are absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/kill.h"
#include "model/memory_kinds.h"
#include "model/workload.h"

namespace forestall {

// Rungs of the kill ladder. SIGKILL by pidfd comes before cgroup.kill, which may wait for a kernel
// lock and catches later forks.
enum class Rung : std::uint8_t {
  verify,       // the cgroup is still the ranked one
  pidfds,       // open a pidfd for each of its processes
  cgroup_kill,  // write cgroup.kill (v2)
  sigkill,      // pidfd_send_signal(SIGKILL)
  mrelease,     // process_mrelease on a worker thread
  sigterm,      // pidfd_send_signal(SIGTERM): the grace of a soft eviction begins
  reclaim,      // memory.reclaim (v2) or memory.force_empty (v1) on what stayed charged
};

[[nodiscard]] std::string_view to_string(Rung rung);

struct Attempt {
  Rung rung = Rung::verify;
  MonotonicTime at;             // when it ended
  std::uint32_t processes = 0;  // number of processes reached
  std::optional<Error> failure;

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// Memory that stays charged to the victim's cgroup after its last process exited.
struct LeftBehind {
  Bytes total;  // usage, after an attempt to reclaim it
  MemoryKinds kinds;

  friend bool operator==(const LeftBehind&, const LeftBehind&) = default;
};

struct Outcome {
  Workload victim;
  bool dry_run = false;  // everything except the signals happened
  KillState state = KillState::in_flight;
  std::vector<Attempt> attempts;
  std::uint32_t processes = 0;  // signalled
  Bytes usage_before;
  Bytes freed;  // usage_before - usage at the end

  MonotonicTime began;                                   // the actuator received the decision
  std::optional<MonotonicTime> signalled;                // first SIGKILL sent
  std::optional<MonotonicTime> exited;                   // the last process exited
  std::optional<MonotonicTime> released;                 // its memory was back
  std::optional<LeftBehind> left_behind = std::nullopt;  // nullopt: next to nothing, or unknown

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

}  // namespace forestall
