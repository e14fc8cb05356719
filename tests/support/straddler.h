// SPDX-License-Identifier: Apache-2.0
// A process whose leader is in one cgroup and whose second thread is in another, which cgroup v1
// permits. For v1 hosts, and not under TSan, which cannot start a thread in a child of a
// multithreaded process.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

class Straddler {
 public:
  Straddler(const ScratchCgroup& scratch, const std::string& leader, const std::string& thread)
      : child_([this] { return run(); }) {
    if (::read(ends_[0].get(), &thread_, sizeof(thread_)) != sizeof(thread_)) {
      throw std::runtime_error("the second thread did not start");
    }
    scratch.add(leader, child_.pid());
    move_thread(scratch, thread);
  }

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] bool alive() const { return !child_.ended(); }
  [[nodiscard]] bool wait_exit() const { return child_.wait_exit(); }
  void move_thread(const ScratchCgroup& scratch, const std::string& group) const {
    std::ofstream tasks(scratch.directory(group) + "/tasks");
    tasks << thread_ << std::flush;
    if (!tasks) throw std::runtime_error("move a thread to " + group);
  }

 private:
  static std::array<UniqueFd, 2> pipe_ends() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  int run() const {
    std::thread second([this] {
      const pid_t self = ::gettid();
      if (::write(ends_[1].get(), &self, sizeof(self)) != sizeof(self)) return;
      for (;;) ::pause();
    });
    second.join();
    return 1;
  }

  // Declaration order matters: the pipe exists before the fork.
  std::array<UniqueFd, 2> ends_ = pipe_ends();
  Child child_;
  pid_t thread_ = 0;
};

}  // namespace forestall::test
