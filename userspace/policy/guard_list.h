// SPDX-License-Identifier: Apache-2.0
// Whom the guard in the kernel may shoot, and at which line: the same thresholds, ranking and
// exclusions as for a decision, asked ahead of time.
//
// The critical line of a hard threshold on memory lies half way between the threshold and
// exhaustion. Nearer to the threshold it would get ahead of an agent that is at work; nearer to
// exhaustion, what is freed would come too late: a victim of some GiB takes 100 ms to go. For a
// cgroup, exhaustion is its limit, and half way is at half of the threshold's amount. For the node
// it is where the kernel itself would find nothing more, MemAvailable + SwapFree (mm/show_mem.c
// si_mem_available): memory.available counts neither kernel memory nor watermarks, and the kernel's
// OOM killer came at memory.available = 80 to 100 Mi on a node of 2 GiB, which for a threshold of
// 100Mi is before half of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/ids.h"
#include "model/observation.h"
#include "model/signal.h"

namespace forestall::policy {

// A workload that may be shot, and with whom: victims of one group go together, because the end of
// the first alone would not give back enough.
struct GuardVictim {
  std::size_t candidate = 0;  // index into GuardOrder::considered
  std::uint32_t group = 0;
  Bytes expected;  // its working set, as of the observation

  friend bool operator==(const GuardVictim&, const GuardVictim&) = default;
};

struct GuardOrder {
  CgroupId cgroup;   // of the subject; inode 0: the node
  std::string path;  // in the memory hierarchy; "/" for the node
  Signal signal = Signal::memory_available;
  Bytes line;           // working set at which it is critical
  Bytes headroom;       // until there; 0 or less: it is critical now
  Bytes inactive_file;  // of the subject
  Bytes need;           // to be back at the threshold from there
  std::vector<Candidate> considered;
  std::vector<GuardVictim> victims;  // in the order of eviction

  friend bool operator==(const GuardOrder&, const GuardOrder&) = default;
};

// At most so many workloads are listed for one subject. The guard shoots one group; those behind it
// are for when whoever stood in front has gone meanwhile.
inline constexpr std::size_t kGuardVictimsMax = 8;

// At most so many subjects have an order: the node, if it is near its threshold, and the cgroups of
// least headroom. The guard has no room for more (bpf/abi/guard.h ABI_GUARD_SLOTS), and each costs
// a ranking; limits of their own can put thousands into their zones at once.
inline constexpr std::size_t kGuardSubjectsMax = 32;

// Groups are made by what a victim will hold when the line is crossed: its working set, and with
// Ranking::kubelet_growth its part of what is left until then, in proportion to its growth.
//
// One order for each subject of a hard threshold on memory, one that evicts, that is in its warning
// zone (policy/warning.h) or past it; the lowest critical line where there are several. Left out is
// a subject to which enough memory is on its way already. Without workloads in the observation, or
// without any that may be killed, an order has no victims: it says that there should be a list.
// Nobody is listed who is protected, is being killed, is unkillable or empty, or whose working set
// is not known.
[[nodiscard]] std::vector<GuardOrder> guard_orders(const Config& config,
                                                   const Observation& observation);

}  // namespace forestall::policy
