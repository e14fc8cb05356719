// SPDX-License-Identifier: Apache-2.0
// Processes that a test starts: one that runs a function, and one that allocates on command. Each
// dies with the test process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace forestall::test {

class ScratchCgroup;

// Timeout for events that must happen. Only a failing test waits this long, so it may be long
// enough for any slow or busy machine.
inline constexpr Duration kPatience = std::chrono::seconds(60);

class Child {
 public:
  // Forks; the child runs `body` and exits with what it returns.
  explicit Child(const std::function<int()>& body);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  // Kills it, if it still runs, and reaps it.
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  // Waits for its end; false if it does not end within `patience`.
  [[nodiscard]] bool wait_exit(Duration patience = kPatience) const;
  // Whether it has ended (without waiting).
  [[nodiscard]] bool ended() const { return wait_exit(Duration::zero()); }
  // Ends it and returns its wait status.
  int reap();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// A process in a test's cgroup that holds `start` bytes of touched anonymous memory (4 KiB pages)
// and grows on command.
class Hog {
 public:
  Hog(const ScratchCgroup& scratch, const std::string& path, Bytes start);

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] Child& child() { return child_; }
  // Starts growth by `total` bytes, at `bytes_per_second` (0: as fast as possible), and returns at
  // once. Commands during growth are queued. A command to a killed process does nothing.
  void grow(Bytes total, Bytes bytes_per_second = {0}) const;
  // Starts a leak that ends only by a kill: `spurt` bytes as fast as possible, then
  // `bytes_per_second` without end. Returns at once.
  //
  // For tests of an action between a crossing and the kernel's OOM killer. If the spurt ends past
  // the line and short of the limit, the test decides how much time there is to act, not the speed
  // of the machine.
  void leak(Bytes spurt, Bytes bytes_per_second) const;
  // Waits until the growth is complete; false if that does not happen.
  [[nodiscard]] bool wait_grown(Duration patience = kPatience) const;
  [[nodiscard]] bool alive() const { return !child_.ended(); }

 private:
  // Declaration order matters: the pipes exist before the fork.
  UniqueFd command_read_, command_write_, reply_read_, reply_write_;
  Child child_;
};

}  // namespace forestall::test
