// SPDX-License-Identifier: Apache-2.0
// The real agent as a child process, with its records read from its standard output: for the demo,
// and for the tests, which want nothing less.
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
  // Starts `executable agent --output json` with these further arguments, its log going to
  // agent.log in `run_directory` (where its lock and notify socket live too), and waits until it
  // says READY=1. An error carries the log. It is sent SIGTERM when this process dies.
  static Result<AgentProcess> start(const std::string& executable,
                                    const std::vector<std::string>& arguments,
                                    const std::string& run_directory);
  AgentProcess(AgentProcess&& other) noexcept;
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  AgentProcess& operator=(AgentProcess&&) = delete;
  ~AgentProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // All it has logged so far.
  [[nodiscard]] std::string log() const;
  // Waits until a line of the log contains `text`; false when none did before the deadline.
  [[nodiscard]] bool wait_log(const std::string& text, MonotonicTime deadline) const;
  // Waits for its end and returns its wait status; nothing when it did not end before the deadline.
  [[nodiscard]] std::optional<int> wait_end(MonotonicTime deadline);

  // Next line it prints (one record as JSON); nothing when none came before the deadline or the
  // agent ended.
  [[nodiscard]] std::optional<std::string> next_record(MonotonicTime deadline);

 private:
  AgentProcess(pid_t pid, UniqueFd pidfd, UniqueFd output, std::string log_path)
      : pid_(pid),
        pidfd_(std::move(pidfd)),
        output_(std::move(output)),
        log_path_(std::move(log_path)) {}
  pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd output_;
  std::string log_path_;
  std::string pending_;
};

}  // namespace forestall::cli
