// SPDX-License-Identifier: Apache-2.0
// A restart of a systemd unit among the kills of an observation: it ends the unit's processes, so
// it counts as a kill does. Its path is the name of the unit.
//   in_flight  requested, not done
//   released   done
//   stuck      processes may have ended, but the unit does not run again, or not in time
//   failed     systemd did not begin it
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "model/kill.h"

namespace forestall {

// The path of a cgroup begins with a slash; the name of a unit has none.
[[nodiscard]] inline bool is_unit_restart(const KillProgress& kill) {
  return !kill.path.empty() && kill.path.find('/') == std::string::npos;
}

[[nodiscard]] inline bool is_restart_of(const KillProgress& kill, std::string_view unit) {
  return kill.path == unit && is_unit_restart(kill);
}

// The id is that of no cgroup: inode numbers do not have the first bit.
[[nodiscard]] inline KillProgress unit_restart(const std::string& unit, KillState state,
                                               MonotonicTime started) {
  constexpr std::uint64_t kNoInode = std::uint64_t{1} << 63U;
  KillProgress restart;
  restart.cgroup = CgroupId{std::hash<std::string_view>()(unit) | kNoInode};
  restart.path = unit;
  restart.state = state;
  restart.started = started;
  return restart;
}

}  // namespace forestall
