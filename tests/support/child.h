// SPDX-License-Identifier: Apache-2.0
// Processes a test starts and ends itself: one that runs a function, and one that takes memory on
// command. Each dies with the test process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace forestall::test {

class ScratchCgroup;

// How long a test waits for what must come. It is only ever spent by a test that fails, so it asks
// nothing of the machine: not that it is fast, nor that its CPUs are its own.
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
  // Waits for its end; false when it did not come within `patience`.
  [[nodiscard]] bool wait_exit(Duration patience = kPatience) const;
  // Whether it has ended (without waiting).
  [[nodiscard]] bool ended() const { return wait_exit(Duration::zero()); }
  // Ends it and returns its wait status.
  int reap();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// A process in a cgroup of a test that holds `start` bytes of touched anonymous memory (4 KiB
// pages) and grows on command.
class Hog {
 public:
  Hog(const ScratchCgroup& scratch, const std::string& path, Bytes start);

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] Child& child() { return child_; }
  // Starts growing by `total` bytes, at `bytes_per_second` (0: as fast as it can). Returns at once;
  // growth that is commanded meanwhile follows. Commanding one that has been killed does nothing.
  void grow(Bytes total, Bytes bytes_per_second = {0}) const;
  // Starts a leak that nothing but its death ends: `spurt` as fast as it can, then on and on at
  // `bytes_per_second`. Returns at once.
  //
  // For whatever must act on a crossing before the kernel's OOM killer does: with a spurt that ends
  // past the line and short of the limit the crossing comes at full speed, and how much time there
  // is to act is decided by the test, not by how fast this machine runs the one and the other.
  void leak(Bytes spurt, Bytes bytes_per_second) const;
  // Waits until a growth that was commanded is complete; false when it never came.
  [[nodiscard]] bool wait_grown(Duration patience = kPatience) const;
  [[nodiscard]] bool alive() const { return !child_.ended(); }

 private:
  // Declaration order matters: the pipes exist before the fork.
  UniqueFd command_read_, command_write_, reply_read_, reply_write_;
  Child child_;
};

}  // namespace forestall::test
