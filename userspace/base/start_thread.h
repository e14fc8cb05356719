// SPDX-License-Identifier: Apache-2.0
// Starts a thread or returns an error. Limits on tasks (pids.max, TasksMax) are often reached when
// a node is in trouble; std::thread then throws, which would end the agent.
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
  // std::thread reports this failure only by an exception.
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& refused) {
    return Error{refused.code().value(), "thread " + std::string(name)};
  }
}

}  // namespace forestall
