// SPDX-License-Identifier: Apache-2.0
// The event loop: sd-event turns descriptors, timers and signals into calls of the core.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "agent/core.h"
#include "base/result.h"

namespace forestall::agent {

struct LoopHooks {
  // SIGHUP: reads the configuration again. On an error the old one stays in force.
  std::function<Result<Config>()> reload;
  // Readable when `take_change` may have another configuration: of pods, of rulesets.
  std::vector<int> change_fds = {};
  std::function<std::optional<Config>()> take_change;
  // Every source is armed: notifies the service manager.
  std::function<void()> ready;
  // When the loop ends without a signal; nothing: never.
  std::optional<MonotonicTime> end_at = std::nullopt;
};

// Runs until SIGTERM, SIGINT or `end_at`. REQUIRES: those and SIGHUP are blocked in every thread.
// An error means that the host has no memory or no descriptors left.
[[nodiscard]] Result<void> run_loop(Core& core, const Parts& parts, const LoopHooks& hooks);

}  // namespace forestall::agent
