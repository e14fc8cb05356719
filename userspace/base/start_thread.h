// SPDX-License-Identifier: Apache-2.0
// A thread, or why there is none: a bound on tasks (pids.max, TasksMax) is met just when a node is
// in trouble, and std::thread answers that by throwing, which would end the agent.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/result.h"

namespace forestall {

template <typename Run>
[[nodiscard]] Result<std::thread> start_thread(std::string_view name, Run run) {
  // The one place where the standard library leaves no other way to hear of it.
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& refused) {
    return Error{refused.code().value(), "thread " + std::string(name)};
  }
}

}  // namespace forestall
