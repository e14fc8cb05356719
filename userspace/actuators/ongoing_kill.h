// SPDX-License-Identifier: Apache-2.0
// What the parts of one kill share: where it takes place, its options, and the outcome that they
// write.
#pragma once

#include <cstdint>

#include "actuators/event_key.h"
#include "actuators/ladder.h"
#include "actuators/never_kill.h"
#include "actuators/process_lister.h"
#include "actuators/reaper_pool.h"
#include "actuators/suspended_times.h"
#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "model/outcome.h"

namespace forestall::actuators {

// Shared by all kills; outlives each of them.
struct VictimContext {
  const kernel::CgroupTree& tree;
  const Clock& clock;
  const NeverKill& never_kill;
  ReaperPool& reapers;
  // One thread for cgroup.kill. It has to reach the processes before the reapers free the memory of
  // those that are signalled already.
  ReaperPool& group_killer;
  // One thread for memory.reclaim and memory.force_empty, which may wait for swap or a disk. It
  // must not delay process_mrelease of another victim.
  ReaperPool& reclaimer;
  int epoll;
  const SuspendedTimes& suspended;
  const ProcessLister& lister;
  const HeldCgroups& held;
};

struct OngoingKill {
  const VictimContext& context;
  const std::uint32_t number;  // unique among the kills of a ladder, and not 0
  const LadderOptions options;
  Outcome outcome = {};

  [[nodiscard]] bool usable(Feature feature) const { return has(options.usable, feature); }
  [[nodiscard]] std::uint64_t key(std::uint32_t index) const {
    return EventKey{number, index}.pack();
  }
  // One attempt per rung: later rounds on the same rung are added to it. Its time is now. Valid
  // until the next call.
  Attempt& attempt(Rung rung);
};

// Adds to an outcome what another part of the agent did before the outcome began.
void add(const Signalled& signalled, Outcome& outcome);

}  // namespace forestall::actuators
