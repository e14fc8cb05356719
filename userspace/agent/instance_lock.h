// SPDX-License-Identifier: Apache-2.0
// One agent per host: two would credit and kill without knowing of each other.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::agent {

// Held for the life of the object; the kernel drops it when the process dies, however it dies, so
// that nothing has to be cleaned up after a kill -9.
class InstanceLock {
 public:
  // Makes `run_directory` if need be and locks `agent.lock` in it. EWOULDBLOCK (with the holder's
  // pid in the message) when another agent has it.
  static Result<InstanceLock> take(const std::string& run_directory);

 private:
  explicit InstanceLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace forestall::agent
