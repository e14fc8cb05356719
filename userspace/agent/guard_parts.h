// SPDX-License-Identifier: Apache-2.0
// What the guard's lists are made with.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "exports/log.h"
#include "exports/loop_counts.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "sources/observer.h"

namespace forestall::agent {

// The caller owns all of it and outlives its users.
struct GuardParts {
  kernel::GuardPrograms& guard;
  const kernel::CgroupTree& tree;
  sources::Observer& observer;
  const Clock& clock;
  exports::Log& log;
  exports::LoopCounts& counts;
  // Set by a thread: the store of the guard does not keep all of it. Null: it cannot turn out so.
  const std::atomic<bool>* store_refused = nullptr;
};

}  // namespace forestall::agent
