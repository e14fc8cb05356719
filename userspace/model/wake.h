// SPDX-License-Identifier: Apache-2.0
// A wake: the reason for the current evaluation. It has the time at which the cause happened,
// so that the time from crossing to signal can be measured. It is never evidence that a threshold
// is met.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/ids.h"

namespace forestall {

enum class WakeSource : std::uint8_t {
  startup,          // first evaluation
  recheck,          // periodic evaluation that re-arms lines as inactive_file drifts
  usage_timer,      // bpf_timer: usage crossed its line
  charge,           // fexit/page_counter_try_charge: usage crossed its line
  reclaim,          // reclaim began in a watched cgroup, or kswapd woke
  stall,            // PSI stall seen by BPF
  oom_kill,         // the kernel OOM killer selected a victim
  usage_eventfd,    // cgroup v1 threshold on memory.usage_in_bytes
  high_tripwire,    // cgroup v2 memory.high was crossed (memory.events)
  psi_trigger,      // PSI trigger fired
  poll,             // adaptive reading of /proc/vmstat, usage files, filesystems and tasks
  workload_change,  // a cgroup was created, removed or filled
  kill_progress,    // a kill in flight advanced
  command,          // reload, or an operator's request
  oom_last_call,    // the kernel is about to select a victim; it may still find that it need not
  disk_usage,       // a disk usage walk over the pods has ended
  deadline,         // time alone changed the result: a grace period or a condition has ended
  node_reclaim,     // node-level reclaim has ended
  watchdog,         // the loop did not evaluate in time, and the watchdog acted instead
  guard,            // the line of the guard was crossed, or it made a guard kill
  rules,            // what rulesets decide on has been read
  pressure,         // a container stays under memory pressure at its own limit
};

[[nodiscard]] std::string_view to_string(WakeSource source);

struct Wake {
  WakeSource source = WakeSource::startup;
  MonotonicTime at;  // when it happened in the kernel, otherwise when the loop was woken
  std::optional<CgroupId> cgroup;  // nullopt: the node
  std::optional<Bytes> usage;      // usage at `at`, if the source has it

  friend bool operator==(const Wake&, const Wake&) = default;
};

}  // namespace forestall
