// SPDX-License-Identifier: Apache-2.0
// What the guard's standing list contains: the list for a time in which the agent is stopped while
// memory is not short (bpf/lib/standing.bpf.h). The guard ranks its workloads when the line is
// reached; the rules here bound which of them it may kill.
//
// The lines are where half of a threshold's amount is left, so a working agent has acted already:
// half of it by the working set, or by what the kernel has left without swap (MemAvailable). Page
// cache in use counts in the former, and is reclaimed before the kernel's OOM killer acts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/ids.h"
#include "model/observation.h"
#include "model/signal.h"

namespace forestall::policy {

struct StandingSubject {
  CgroupId cgroup;   // inode 0: the node
  std::string path;  // in the memory hierarchy; "/" for the node
  Signal signal = Signal::memory_available;
  // How much its working set may grow until the line; nullopt: the signal is no working set.
  std::optional<Bytes> headroom;
  Bytes used;  // its working set; 0 if `headroom` is nullopt
  // The node only: how much may be allocated until the line on what the kernel has left; nullopt:
  // unknown, or there is swap, which a program cannot count.
  std::optional<Bytes> headroom_left;
  Bytes inactive_file;
};

// The node, if it has a hard, evicting threshold on memory, else the watched cgroup nearest to its
// own. Nothing with Ranking::kernel, whose points change with every page; near a threshold, where
// guard_orders() has better lists; and while a kill is in flight or within KillLimit::window,
// because a further one depends on what the first freed (damage_limit.h).
[[nodiscard]] std::optional<StandingSubject> standing_subject(const Config& config,
                                                              const Observation& observation);

struct StandingWorkload {
  std::size_t candidate = 0;  // index into StandingOrder::considered
  // It may be killed. If not, nothing is killed while it ranks first.
  bool killable = false;
};

struct StandingOrder {
  std::vector<Candidate> considered;  // in the order of eviction
  std::vector<StandingWorkload> workloads;
};

// The workloads of the standing list. Those that are protected, unkillable, empty or of unknown
// working set are not listed. One whose priority is not known, or whose class has reached the kill
// limit, is not killable.
[[nodiscard]] StandingOrder standing_order(const Config& config, const StandingSubject& subject,
                                           const Observation& observation);

}  // namespace forestall::policy
