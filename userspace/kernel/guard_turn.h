// SPDX-License-Identifier: Apache-2.0
// The turn that guards share (bpf/abi/guard.h), as userspace reads and ends it.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/result.h"

namespace forestall::kernel {

// The number of the guard that may fire, from abi_guard_turn::holder.
[[nodiscard]] constexpr std::uint32_t holder_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}

// Nullopt: the descriptor is not a BPF map, or cannot be read.
[[nodiscard]] std::optional<bpf_map_info> map_info(int fd);

// Whether this build can read the map. A later build may have another layout.
[[nodiscard]] bool is_readable_turn(int fd);

// EBUSY: an agent other than this process runs that uses the turn. REQUIRES: is_readable_turn(fd).
[[nodiscard]] Result<void> require_no_agent(int fd);

// From now on no guard up to the holder or up to `last` fires, and a kill of theirs that is not
// over ends. REQUIRES: is_readable_turn(fd).
[[nodiscard]] Result<void> end_turn(int fd, std::uint32_t last);

// Of the guards that share it. `now`, if that is not known or a kill is under way; nullopt: there
// was none. REQUIRES: is_readable_turn(fd).
[[nodiscard]] std::optional<MonotonicTime> last_kill(int fd, MonotonicTime now);

}  // namespace forestall::kernel
