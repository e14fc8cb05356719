// SPDX-License-Identifier: Apache-2.0
// A guard that reports one kill.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "agent/guard_controller.h"

namespace forestall::agent {

class GuardWithAKill final : public LoopGuard {
 public:
  [[nodiscard]] std::vector<KillRequest> take_kills(const Config& /*config*/) override {
    if (!kill) return {};
    std::vector<KillRequest> taken{std::move(*kill)};
    kill.reset();
    return taken;
  }
  std::optional<KillRequest> kill;
};

}  // namespace forestall::agent
