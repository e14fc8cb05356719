// SPDX-License-Identifier: Apache-2.0
#include "model/wake.h"

namespace forestall {

std::string_view to_string(WakeSource source) {
  switch (source) {
    case WakeSource::startup: return "startup";
    case WakeSource::recheck: return "recheck";
    case WakeSource::usage_timer: return "usage-timer";
    case WakeSource::charge: return "charge";
    case WakeSource::reclaim: return "reclaim";
    case WakeSource::stall: return "stall";
    case WakeSource::oom_kill: return "oom-kill";
    case WakeSource::oom_last_call: return "oom-last-call";
    case WakeSource::usage_eventfd: return "usage-eventfd";
    case WakeSource::high_tripwire: return "high-tripwire";
    case WakeSource::psi_trigger: return "psi-trigger";
    case WakeSource::poll: return "poll";
    case WakeSource::workload_change: return "workload-change";
    case WakeSource::kill_progress: return "kill-progress";
    case WakeSource::command: return "command";
    case WakeSource::disk_usage: return "disk-usage";
    case WakeSource::deadline: return "deadline";
    case WakeSource::node_reclaim: return "node-reclaim";
    case WakeSource::watchdog: return "watchdog";
    case WakeSource::guard: return "guard";
    case WakeSource::rules: return "rules";
    case WakeSource::pressure: return "pressure";
  }
  return "";
}

}  // namespace forestall
