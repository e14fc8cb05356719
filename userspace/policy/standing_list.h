// SPDX-License-Identifier: Apache-2.0
// What the guard's standing list contains: the list for a time in which the agent is stopped while
// memory is not short (bpf/lib/standing.bpf.h). The guard ranks its workloads when the line is
// reached; the rules here bound which of them it may kill.
//
// The line is where half of a threshold's amount is left, so a working agent has acted already. On
// the node it is that of memory.untilOom, by MemAvailable and without swap, which the programs
// cannot count: by kubelet's signal page cache in use counts as used, and the kernel takes that
// back before its OOM killer acts. For a cgroup the line is by its working set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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
  Bytes capacity;       // a cgroup's is its limit
  Bytes available;      // of that
  Bytes line;           // the list is for the time when less than that is available
  Bytes inactive_file;  // of a cgroup
};

// The node, if it has a hard, evicting threshold of memory.untilOom and no swap; else the watched
// cgroup nearest to its own threshold on memory. Without those in `left_out`, and without cgroups
// whose capacity is declared: the programs compare their limit. Nothing with Ranking::kernel, whose
// points change with every page; near a threshold, where guard_orders() has better lists; and while
// a kill is in flight or within KillLimit::window, because a further one depends on what the first
// freed (damage_limit.h).
[[nodiscard]] std::optional<StandingSubject> standing_subject(const Config& config,
                                                              const Observation& observation,
                                                              std::span<const CgroupId> left_out);

struct StandingWorkload {
  std::size_t candidate = 0;  // index into StandingOrder::considered
  // It may be killed. If not, nothing is killed while it ranks first.
  bool killable = false;
  // What the programs compare, among workloads above their request: one that is preferred and
  // within it is passed over. A preferred one has the lowest priority there is, one that is avoided
  // the highest.
  std::int32_t priority = 0;
  // No process of it may be killed that is not listed: it is of a login session, where the next
  // agent may be started.
  bool listed_only = false;
};

struct StandingOrder {
  std::vector<Candidate> considered;  // in the order of eviction
  std::vector<StandingWorkload> workloads;
};

// The workloads of the standing list. Those that are protected, unkillable, empty or of unknown
// working set are not listed. One whose priority is not known, that is avoided, or whose class has
// reached the kill limit, is not killable: the programs compare only workloads above their request,
// and another one precedes one that is avoided even within its request.
[[nodiscard]] StandingOrder standing_order(const Config& config, const StandingSubject& subject,
                                           const Observation& observation);

}  // namespace forestall::policy
