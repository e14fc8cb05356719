// SPDX-License-Identifier: Apache-2.0
#include "model/eviction.h"

namespace forestall {

std::string_view to_string(EvictionCause cause) {
  switch (cause) {
    case EvictionCause::threshold: return "threshold";
    case EvictionCause::empty_dir_limit: return "emptydirfs.limit";
    case EvictionCause::pod_storage_limit: return "ephemeralpodfs.limit";
    case EvictionCause::container_storage_limit: return "ephemeralcontainerfs.limit";
    case EvictionCause::ruleset: return "ruleset";
    case EvictionCause::high_pressure: return "memory.high.pressure";
    case EvictionCause::max_pressure: return "memory.max.pressure";
    case EvictionCause::psi_pressure: return "memory.psi.pressure";
  }
  return "";
}

std::string_view to_string(ReclaimStep step) {
  switch (step) {
    case ReclaimStep::dead_containers: return "dead-containers";
    case ReclaimStep::unused_images: return "unused-images";
  }
  return "";
}

std::string_view to_string(ReclaimState state) {
  switch (state) {
    case ReclaimState::unavailable: return "unavailable";
    case ReclaimState::ready: return "ready";
    case ReclaimState::running: return "running";
    case ReclaimState::done: return "done";
  }
  return "";
}

}  // namespace forestall
