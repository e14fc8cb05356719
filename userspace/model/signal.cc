// SPDX-License-Identifier: Apache-2.0
#include "model/signal.h"

namespace forestall {

std::string_view to_string(Signal signal) {
  switch (signal) {
    case Signal::memory_available: return "memory.available";
    case Signal::allocatable_memory_available: return "allocatableMemory.available";
    case Signal::cgroup_memory_available: return "cgroupMemory.available";
  }
  return "";
}

std::optional<Signal> parse_signal(std::string_view text) {
  for (const Signal signal : kSignals) {
    if (to_string(signal) == text) return signal;
  }
  return std::nullopt;
}

}  // namespace forestall
