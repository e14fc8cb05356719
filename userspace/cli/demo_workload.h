// SPDX-License-Identifier: Apache-2.0
// A process of the demo: it has its own cgroup, holds memory, and leaks on command.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::cli {

class DemoWorkload {
 public:
  // Forks a process, moves it into the cgroup and waits until it has touched `held` bytes of
  // anonymous memory. It dies with its parent.
  static Result<DemoWorkload> start(const kernel::CgroupDir& cgroup, Bytes held);
  DemoWorkload(DemoWorkload&& other) noexcept;
  DemoWorkload(const DemoWorkload&) = delete;
  DemoWorkload& operator=(const DemoWorkload&) = delete;
  DemoWorkload& operator=(DemoWorkload&&) = delete;
  ~DemoWorkload();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Starts the leak: it touches page after page as fast as it can.
  [[nodiscard]] Result<void> leak() const;
  // Signal that killed it (SIGKILL after an eviction); nothing if it still runs after `patience`.
  [[nodiscard]] std::optional<int> ended_by(Duration patience = Duration::zero());

 private:
  DemoWorkload(pid_t pid, UniqueFd pidfd, UniqueFd command)
      : pid_(pid), pidfd_(std::move(pidfd)), command_(std::move(command)) {}
  pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd command_;
  std::optional<int> ended_by_;
};

}  // namespace forestall::cli
