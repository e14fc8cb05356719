// SPDX-License-Identifier: Apache-2.0
// One prekill hook while it runs.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "actuators/hook_runner.h"

namespace forestall::actuators {

// Thread rule: one thread. No call waits for the hook.
class HookRun {
 public:
  virtual ~HookRun() = default;

  // What to poll for, and what to call when it is ready. fd -1: nothing.
  [[nodiscard]] virtual pollfd awaited() const = 0;
  // Returns the result once it ended.
  [[nodiscard]] virtual std::optional<HookResult> advance() = 0;
  // Its time is over, or it is not wanted any more.
  virtual void end() = 0;
  // Whether nothing is left of it; true from then on.
  [[nodiscard]] virtual bool is_gone() = 0;
};

// From now on this process is the parent of what the processes of a killed supervisor leave, so
// that the run can end them. Before the first start_program().
[[nodiscard]] Result<void> adopt_orphans();
// A program, opened and checked now. `supervisor`: the path of forestall-prekill. Errors: the file
// is not one that only root can change, or nothing can be started.
[[nodiscard]] Result<std::unique_ptr<HookRun>> start_program(const HookRequest& request,
                                                             const std::string& supervisor,
                                                             MonotonicTime now);
// A request to a server of root. Errors: there is none.
[[nodiscard]] Result<std::unique_ptr<HookRun>> start_socket(const HookRequest& request);

}  // namespace forestall::actuators
