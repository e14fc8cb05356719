// SPDX-License-Identifier: Apache-2.0
// The state of a kill. The actuators report it in the next observation, so that the policy can
// count memory that is being released and skip a victim that cannot be killed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/ids.h"

namespace forestall {

enum class KillState : std::uint8_t {
  in_flight,  // signalled; its memory is being released
  released,   // it exited and its memory is back
  stuck,      // signalled, but its memory did not come back in time: counts as 0
  failed,     // nothing could be signalled
  // SIGTERM was sent; SIGKILL follows at `kill_at`. Its memory does not count yet, and a hard
  // threshold may select it again, which ends its grace.
  terminating,
};

[[nodiscard]] std::string_view to_string(KillState state);

struct KillProgress {
  CgroupId cgroup;
  std::string path;
  KillState state = KillState::in_flight;
  MonotonicTime started;
  Bytes remaining;                       // usage of the victim that has not come back yet
  std::optional<MonotonicTime> kill_at;  // of a terminating victim
  Bytes expected = {};                   // its working set when it was selected
  Bytes freed = {};                      // of its usage, once it is released or stuck

  friend bool operator==(const KillProgress&, const KillProgress&) = default;
};

}  // namespace forestall
