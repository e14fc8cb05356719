// SPDX-License-Identifier: Apache-2.0
// One counter of the agent's BPF programs, by the name that bpf/abi gives it.
#pragma once

#include <cstdint>
#include <string_view>

namespace forestall {

struct BpfCounter {
  // Each a string literal.
  std::string_view object;   // the BPF object: agent, guard or tracer
  std::string_view counter;  // the member of the object's counters, for example dropped
  std::string_view kind;     // the event kind or failure; empty for a counter without kinds
  bool loss = false;         // something was lost whenever it moved
  std::uint64_t value = 0;   // since the programs were loaded
};

}  // namespace forestall
