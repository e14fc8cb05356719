// SPDX-License-Identifier: Apache-2.0
// What the loop counts since its start: the same numbers in `forestall status` and in the message
// at the agent's end.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "exports/loop_work.h"
#include "exports/reclaim_tally.h"
#include "model/hook.h"

namespace forestall::exports {

// Written by the loop's thread; read by any thread.
struct LoopCounts {
  // Decisions of the policy: as many as a PassListener receives, a recording contains and a replay
  // repeats.
  std::atomic<std::uint64_t> evaluations{0};
  // Kills that were begun; also those that the watchdog or the guard signalled. No dry runs.
  std::atomic<std::uint64_t> kills{0};
  std::atomic<std::uint64_t> dry_run_kills{0};     // that would have been begun
  std::atomic<std::uint64_t> kernel_oom_kills{0};  // reported by the kernel
  // Now: throttles and freezes of rulesets whose undo failed and is tried again.
  std::atomic<std::uint64_t> rule_settings_not_undone{0};
  // Prekill hooks that ended, by HookState.
  std::array<std::atomic<std::uint64_t>, kHookStateCount> hooks{};
  ReclaimTally reclaims;  // by rulesets
  LoopWorkTally work;
  // Jobs of the thread that prepares the guard's lists which ran so long that lists expired.
  std::atomic<std::uint64_t> guard_lists_late{0};
  // Since when that thread has been running its job (CLOCK_MONOTONIC); 0: it runs none.
  std::atomic<std::int64_t> guard_lists_since_ns{0};
};

}  // namespace forestall::exports
