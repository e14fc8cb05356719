// SPDX-License-Identifier: Apache-2.0
// The last step of a kill: reclaims what stays charged to the victim's cgroup after its last
// process has exited, and reports what is left. Page cache, tmpfs and slab outlive the processes
// that they are charged to.
#pragma once

#include <cstdint>

#include "actuators/ongoing_kill.h"
#include "actuators/reaper_pool.h"
#include "base/bytes.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

// Thread rule: the loop's thread only.
class VictimReclaim {
 public:
  // `kill` outlives it.
  explicit VictimReclaim(OngoingKill& kill) : kill_(kill) {}

  // Nothing was started yet. Only the first start() reclaims: processes that enter the cgroup later
  // are not the victim.
  [[nodiscard]] bool may_start() const { return state_ == State::not_yet; }
  // `usage` is that of `directory` now. Starts nothing for a small rest.
  void start(const kernel::CgroupDir& directory, Bytes usage);
  void on_report(const ReapReport& report);
  [[nodiscard]] bool queued() const { return state_ == State::queued; }
  [[nodiscard]] bool ended() const { return state_ == State::ended; }
  // Writes into the outcome what is left, unless it is little.
  void note_left_behind(const kernel::CgroupDir& directory, Bytes usage);

 private:
  enum class State : std::uint8_t { not_yet, queued, ended };

  OngoingKill& kill_;
  State state_ = State::not_yet;
};

}  // namespace forestall::actuators
