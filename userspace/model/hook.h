// SPDX-License-Identifier: Apache-2.0
// A run of a prekill hook. The actuators report it in the next observations, so that the policy can
// continue with the kill that waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace forestall {

enum class HookState : std::uint8_t {
  running,
  succeeded,  // it exited with 0, or its socket was closed
  failed,     // it exited with another code or by a signal
  timed_out,  // it was killed, or its connection was closed, when its time was over
  refused,    // it was not started
};

inline constexpr std::size_t kHookStateCount = static_cast<std::size_t>(HookState::refused) + 1;

[[nodiscard]] std::string_view to_string(HookState state);

struct HookProgress {
  std::uint64_t run = 0;  // number of the run, unique while the configuration is in force
  std::string hook;       // its name
  std::string cgroup;     // path of the victim
  HookState state = HookState::running;
  MonotonicTime started = {};         // when it was requested
  Duration took{0};                   // once it ended
  std::optional<int> exit_code = {};  // of a program that exited; 128 + N: killed by signal N
  std::string problem = {};           // why it failed or was not started

  friend bool operator==(const HookProgress&, const HookProgress&) = default;
};

}  // namespace forestall
