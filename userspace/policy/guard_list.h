// SPDX-License-Identifier: Apache-2.0
// The workloads that the guard in the kernel may kill, and the line at which it does. The
// thresholds, ranking and exclusions are those of a decision, evaluated in advance.
//
// The critical line of a hard threshold on memory is half way between the threshold and exhaustion.
// Nearer to the threshold, the guard would pre-empt a working agent. Nearer to exhaustion, memory
// would be freed too late: a victim of some GiB takes 100 ms to exit. For a cgroup, exhaustion is
// its limit, and half way is half of the threshold's amount. For the node it is where MemAvailable
// + SwapFree (mm/show_mem.c si_mem_available) is used up. memory.available ignores kernel memory
// and watermarks: the kernel's OOM killer ran at memory.available = 80 to 100 Mi on a node of 2
// GiB, which for a threshold of 100Mi is before half of it.
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

// A workload that the guard may kill. Victims of one group are killed together, because the first
// alone would not free enough.
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
  Bytes line;           // working set at the critical line
  Bytes headroom;       // until the line; 0 or less: it is crossed
  Bytes inactive_file;  // of the subject
  Bytes need;           // from the line back to the threshold
  std::vector<Candidate> considered;
  std::vector<GuardVictim> victims;  // in the order of eviction

  friend bool operator==(const GuardOrder&, const GuardOrder&) = default;
};

// Limit of listed workloads per subject. The guard kills one group; later groups are used if
// earlier ones have exited.
inline constexpr std::size_t kGuardVictimsMax = 8;

// Limit of subjects with an order: the node, if it is near its threshold, and the cgroups of least
// headroom. The guard has no room for more (bpf/abi/guard.h ABI_GUARD_STANDING), and each costs a
// ranking. Own limits can put thousands of cgroups into their warning zones at once.
inline constexpr std::size_t kGuardSubjectsMax = 31;

// Groups are sized by the predicted memory of a victim at the critical line: its working set, plus,
// with Ranking::kubelet_growth, its share of the remaining headroom in proportion to its growth.
//
// One order for each subject that is in the warning zone (policy/warning.h) of a hard, evicting
// threshold on memory, or past it. Of several such thresholds, the lowest critical line counts.
// Subjects to which enough memory is already being released are omitted. Without workloads in the
// observation, or without killable ones, an order has no victims; it then shows that a list is
// needed. Workloads that are protected, being killed, unkillable, empty or of unknown working set
// are not listed.
[[nodiscard]] std::vector<GuardOrder> guard_orders(const Config& config,
                                                   const Observation& observation);

// The paths of their subjects, without ranking anything.
[[nodiscard]] std::vector<std::string> guard_subjects(const Config& config,
                                                      const Observation& observation);

}  // namespace forestall::policy
