// SPDX-License-Identifier: Apache-2.0
#include "model/oom_kill.h"

namespace forestall {

std::string_view to_string(Inaction inaction) {
  switch (inaction) {
    case Inaction::not_watched: return "not-watched";
    case Inaction::unread: return "unread";
    case Inaction::below_threshold: return "below-threshold";
    case Inaction::in_grace: return "in-grace";
    case Inaction::dry_run: return "dry-run";
    case Inaction::nobody_to_kill: return "nobody-to-kill";
    case Inaction::too_fast: return "too-fast";
    case Inaction::acting: return "acting";
    case Inaction::ours: return "ours";
  }
  return "";
}

}  // namespace forestall
