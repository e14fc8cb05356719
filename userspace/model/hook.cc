// SPDX-License-Identifier: Apache-2.0
#include "model/hook.h"

namespace forestall {

std::string_view to_string(HookState state) {
  switch (state) {
    case HookState::running: return "running";
    case HookState::succeeded: return "succeeded";
    case HookState::failed: return "failed";
    case HookState::timed_out: return "timed-out";
    case HookState::refused: return "refused";
  }
  return "";
}

}  // namespace forestall
