// SPDX-License-Identifier: Apache-2.0
// The state of a kill, as the actuators report it back into the next observation, so that the
// policy can credit memory that is on its way and pass over a victim that cannot be killed.
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
  in_flight,  // signalled; its memory is on its way
  released,   // gone, its memory is back
  stuck,      // signalled, but its memory did not come back in time: no more credit
  failed,     // nothing could be signalled
  // SIGTERM was sent; SIGKILL follows at `kill_at`. Nothing of its memory is credited yet, and a
  // hard threshold may choose it again, which ends its grace.
  terminating,
};

[[nodiscard]] std::string_view to_string(KillState state);

struct KillProgress {
  CgroupId cgroup;
  std::string path;
  KillState state = KillState::in_flight;
  MonotonicTime started;
  Bytes remaining;                       // usage of the victim that has not come back yet
  std::optional<MonotonicTime> kill_at;  // of one that is terminating

  friend bool operator==(const KillProgress&, const KillProgress&) = default;
};

}  // namespace forestall
