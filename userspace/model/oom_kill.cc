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
    case Inaction::no_victim: return "no-victim";
    case Inaction::too_fast: return "too-fast";
    case Inaction::acting: return "acting";
    case Inaction::ours: return "ours";
    case Inaction::held_back: return "held-back";
    case Inaction::warn_only: return "warn-only";
    case Inaction::stopped: return "stopped";
  }
  return "";
}

}  // namespace forestall
