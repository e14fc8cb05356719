// SPDX-License-Identifier: Apache-2.0
#include "model/outcome.h"

namespace forestall {

std::string_view to_string(Rung rung) {
  switch (rung) {
    case Rung::verify: return "verify";
    case Rung::pidfds: return "pidfds";
    case Rung::cgroup_kill: return "cgroup.kill";
    case Rung::sigkill: return "sigkill";
    case Rung::mrelease: return "process_mrelease";
    case Rung::sigterm: return "sigterm";
    case Rung::reclaim: return "reclaim";
  }
  return "";
}

}  // namespace forestall
