// SPDX-License-Identifier: Apache-2.0
#include "model/oom.h"

namespace forestall {

std::string_view to_string(Constraint constraint) {
  switch (constraint) {
    case Constraint::none: return "none";
    case Constraint::cpuset: return "cpuset";
    case Constraint::memory_policy: return "memory-policy";
    case Constraint::memcg: return "memcg";
  }
  return "";
}

std::string_view to_string(OomVerdict verdict) {
  switch (verdict) {
    case OomVerdict::kills: return "kills";
    case OomVerdict::kills_allocating: return "kills-allocating";
    case OomVerdict::waits: return "waits";
    case OomVerdict::no_victim: return "no-victim";
    case OomVerdict::panics: return "panics";
    case OomVerdict::disabled: return "disabled";
  }
  return "";
}

}  // namespace forestall
