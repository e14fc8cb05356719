// SPDX-License-Identifier: Apache-2.0
// The process between the agent and a prekill hook: it starts the hook, reports its end, and leaves
// no process behind.
//
// It is the subreaper of the hook: what a hook leaves becomes its child, whatever session or group
// it is in, and is killed. That happens when the hook ends, when its time is over, and when the
// agent closes its end of kControlFd, as every end of the agent does. The hook has no capabilities
// and cannot gain any; its oom_score_adj is the highest.
#pragma once

#include <cstdint>

namespace forestall::prekill {

// Descriptors of the supervisor when it starts, besides 0 (the hook's input), 1 and 2.
inline constexpr int kProgramFd = 3;  // the checked file; the only one besides 0 to 2 for the hook
inline constexpr int kControlFd = 4;  // polls hung up when the hook must end
inline constexpr int kStatusFd = 5;   // a HookEnd is written to it once

enum class HookEndKind : std::int32_t {
  exited,       // value: its code
  signalled,    // value: the signal
  timed_out,    // killed
  not_started,  // value: errno
};

struct HookEnd {
  HookEndKind kind = HookEndKind::exited;
  std::int32_t value = 0;
};

// `arguments`: milliseconds that the hook may take, its path, its arguments, null. Returns the exit
// code of this process, after the last process of the hook has ended.
[[nodiscard]] int supervise(char** arguments);

}  // namespace forestall::prekill
