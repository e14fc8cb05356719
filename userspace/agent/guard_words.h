// SPDX-License-Identifier: Apache-2.0
// Words for the fields of the guard's reports, for the log.
#pragma once

#include <cstdint>
#include <string_view>

#include "bpf/abi/guard.h"

namespace forestall::agent {

inline std::string_view way_word(std::uint32_t way) {
  switch (way) {
    case ABI_GUARD_BY_TASK: return "task";
    case ABI_GUARD_BY_CURRENT: return "current";
    default: return "none";
  }
}

inline std::string_view hook_word(std::uint32_t hook) {
  switch (hook) {
    case ABI_GUARD_TIMER: return "timer";
    case ABI_GUARD_RECLAIM: return "reclaim";
    case ABI_GUARD_CHARGE: return "charge";
    default: return "command";
  }
}

inline std::string_view kind_word(std::uint32_t kind) {
  switch (kind) {
    case ABI_GUARD_CROSSED: return "crossed";
    case ABI_GUARD_KILLED: return "killed";
    case ABI_GUARD_DYING: return "dying-already";
    case ABI_GUARD_FAILED: return "failed";
    case ABI_GUARD_GIVEN_UP: return "given-up";
    default: return "no-victim";
  }
}

}  // namespace forestall::agent
