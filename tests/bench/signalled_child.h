// SPDX-License-Identifier: Apache-2.0
// A child process that executes commands one at a time and returns a result for each.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "support/child.h"

namespace forestall::test {

template <typename Command, typename Answer>
class SignalledChild {
  static_assert(std::is_trivially_copyable_v<Command> && std::is_trivially_copyable_v<Answer>);

 public:
  using Act = std::function<std::optional<Answer>(Command)>;

  // `act` runs in the child, which ends when that returns nothing.
  explicit SignalledChild(const Act& act)
      : pipes_(make_pipes()), child_([this, act] { return obey(act); }) {}

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  // Waits for the result. Throws if the child ended instead.
  Answer report(const Command& command) const {
    Answer answer{};
    if (write(pipes_[1], &command, sizeof(command)) != sizeof(command) ||
        read(pipes_[2], &answer, sizeof(answer)) != sizeof(answer)) {
      throw std::runtime_error("the child that works ended early");
    }
    return answer;
  }

 private:
  static std::array<int, 4> make_pipes() {
    std::array<int, 4> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0 || pipe2(ends.data() + 2, O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe2");
    }
    return ends;
  }

  [[nodiscard]] int obey(const Act& act) const {
    for (Command command{}; read(pipes_[0], &command, sizeof(command)) == sizeof(command);) {
      const std::optional<Answer> answer = act(command);
      if (!answer || write(pipes_[3], &*answer, sizeof(*answer)) != sizeof(*answer)) return 1;
    }
    return 0;
  }

  std::array<int, 4> pipes_;  // commands and results, each read end first; closed by the exit
  Child child_;
};

}  // namespace forestall::test
