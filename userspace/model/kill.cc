// SPDX-License-Identifier: Apache-2.0
#include "model/kill.h"

namespace forestall {

std::string_view to_string(KillState state) {
  switch (state) {
    case KillState::in_flight: return "in-flight";
    case KillState::released: return "released";
    case KillState::stuck: return "stuck";
    case KillState::failed: return "failed";
    case KillState::terminating: return "terminating";
  }
  return "";
}

}  // namespace forestall
