// SPDX-License-Identifier: Apache-2.0
// One agent per host: two would each kill for the same crossing.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::agent {

// Held for the life of the object. The kernel releases it when the process ends, so kill -9 leaves
// nothing to clean up.
class InstanceLock {
 public:
  // Creates `run_directory` if it is missing, and locks `agent.lock` in it. EWOULDBLOCK (with the
  // holder's pid in the message) if another agent has it. Refuses a directory that another user
  // owns or can write to, and a symbolic link.
  static Result<InstanceLock> take(const std::string& run_directory);

 private:
  explicit InstanceLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace forestall::agent
