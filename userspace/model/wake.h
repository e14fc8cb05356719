// SPDX-License-Identifier: Apache-2.0
// A wake: why the loop is looking now. It says when the kernel saw the cause, so that the time
// from crossing to signal can be measured; it is never itself evidence that a threshold is met.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/ids.h"

namespace forestall {

enum class WakeSource : std::uint8_t {
  startup,          // first look
  recheck,          // the slow periodic look that re-arms lines as inactive_file drifts
  usage_timer,      // bpf_timer saw usage cross its line
  charge,           // fexit/page_counter_try_charge saw usage cross its line
  reclaim,          // reclaim began in a watched cgroup, or kswapd woke
  stall,            // PSI stall seen by BPF
  oom_kill,         // the kernel OOM killer chose a victim
  usage_eventfd,    // cgroup v1 threshold on memory.usage_in_bytes
  high_tripwire,    // cgroup v2 memory.high was crossed (memory.events)
  psi_trigger,      // PSI trigger fired
  poll,             // adaptive reading of /proc/vmstat, usage files, filesystems and tasks
  workload_change,  // a cgroup appeared, vanished or emptied
  kill_progress,    // a kill in flight advanced
  command,          // reload, or a request of the operator
  oom_last_call,    // the kernel is about to choose a victim; it may yet find that it need not
  disk_usage,       // what the pods occupy on disk has been measured
  deadline,         // time alone changed the answer: a grace period or a condition is over
  node_reclaim,     // node-level reclaim is over
  watchdog,         // the loop did not look in time, and the watchdog acted for it
  guard,            // the guard saw its line crossed, or shot
};

[[nodiscard]] std::string_view to_string(WakeSource source);

struct Wake {
  WakeSource source = WakeSource::startup;
  MonotonicTime at;                // when the kernel saw it; else when we were woken
  std::optional<CgroupId> cgroup;  // nothing: the node
  std::optional<Bytes> usage;      // usage at `at`, when the source knows it

  friend bool operator==(const Wake&, const Wake&) = default;
};

}  // namespace forestall
