// SPDX-License-Identifier: Apache-2.0
// The agent as a child process, with its records read from its standard output. For the demo and
// for tests.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::cli {

class AgentProcess {
 public:
  // Starts `executable agent --output json` with further arguments, and waits until it reports
  // READY=1. Its log is agent.log in `run_directory`, which also contains its lock and notify
  // socket. An error contains the log. The agent gets SIGTERM when this process dies.
  // If `interrupt_fd` (-1: none) becomes readable, this and next_record() return early.
  static Result<AgentProcess> start(const std::string& executable,
                                    const std::vector<std::string>& arguments,
                                    const std::string& run_directory, int interrupt_fd = -1);
  AgentProcess(AgentProcess&& other) noexcept;
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  AgentProcess& operator=(AgentProcess&&) = delete;
  ~AgentProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // The log up to now.
  [[nodiscard]] std::string log() const;
  // Waits until a line of the log contains `text`. Returns false at the deadline.
  [[nodiscard]] bool wait_for_log(const std::string& text, MonotonicTime deadline) const;
  // Waits for the exit of the agent and returns its wait status; nothing at the deadline.
  [[nodiscard]] std::optional<int> wait_end(MonotonicTime deadline);

  // The next line of its standard output (one record as JSON). Nothing at the deadline, after the
  // agent's exit or after an interrupt.
  [[nodiscard]] std::optional<std::string> next_record(MonotonicTime deadline);

 private:
  AgentProcess(pid_t pid, UniqueFd pidfd, UniqueFd output, std::string log_path, int interrupt_fd)
      : pid_(pid),
        pidfd_(std::move(pidfd)),
        output_(std::move(output)),
        log_path_(std::move(log_path)),
        interrupt_fd_(interrupt_fd) {}
  pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd output_;
  std::string log_path_;
  int interrupt_fd_;
  std::string pending_;
};

}  // namespace forestall::cli
