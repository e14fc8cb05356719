// SPDX-License-Identifier: Apache-2.0
// A process that fills memory which is nobody's: pages of a tmpfs file that no process maps. They
// are charged to its cgroup and counted in nobody's memory, so that filling up to an OOM changes no
// score. It is protected from the OOM killer where the machine allows that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

class Filler {
 public:
  Filler();
  // Moves it, and with it where the next pages are charged.
  void join(const ScratchCgroup& groups, const std::string& path);
  // Writes that many pages of 4 KiB more; waits for it, through whatever OOM it meets. Answers
  // with 0 or the errno of the write: ENOMEM when nobody could be killed. Nothing: it does not
  // come back, or is gone.
  [[nodiscard]] std::optional<int> fill(std::int64_t pages);
  // Takes that many pages that stay until drop(): private ones, huge where possible, because an
  // emulated machine needs a minute for so many small ones.
  [[nodiscard]] std::optional<int> hold(std::int64_t pages);
  // Gives all of it back.
  void drop();

  [[nodiscard]] pid_t pid() const { return child_.pid(); }

 private:
  std::optional<int> command(char what, std::int64_t pages);

  UniqueFd command_read_, command_write_, reply_read_, reply_write_;
  Child child_;
};

}  // namespace forestall::test
