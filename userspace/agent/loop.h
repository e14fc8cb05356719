// SPDX-License-Identifier: Apache-2.0
// The event loop: sd-event turns descriptors, timers and signals into calls of the core.
#pragma once

#include <functional>
#include <optional>

#include "agent/core.h"
#include "base/result.h"

namespace forestall::agent {

struct LoopHooks {
  // SIGHUP: read the configuration again. The new one, or an error that leaves the old in force.
  std::function<Result<Config>()> reload;
  // Everything is armed: tell the service manager.
  std::function<void()> ready;
  // When to end by itself; nothing: never.
  std::optional<MonotonicTime> end_at = std::nullopt;
};

// Runs until SIGTERM, SIGINT or `end_at`. REQUIRES: those and SIGHUP are blocked in every thread.
// An error is a defect of the host (no memory, no descriptors), not a condition to be expected.
[[nodiscard]] Result<void> run_loop(Core& core, const Parts& parts, const LoopHooks& hooks);

}  // namespace forestall::agent
