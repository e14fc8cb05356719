// SPDX-License-Identifier: Apache-2.0
// A process that fills memory with pages of a tmpfs file that no process maps. The kernel charges
// them to the filler's cgroup and counts them for no process, so filling up to an OOM changes no
// score. The filler protects itself from the OOM killer, which needs CAP_SYS_RESOURCE.
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
  // Moves the process; its next pages are charged there.
  void join(const ScratchCgroup& groups, const std::string& path);
  // Writes that many more pages of 4 KiB and waits for the end of the write, OOMs included. Returns
  // 0 or the errno of the write: ENOMEM if the kernel found no killable process. Nothing: the
  // filler died or does not answer.
  [[nodiscard]] std::optional<int> fill(std::int64_t pages);
  // Takes that many private pages until drop(). Huge pages where possible, because an emulated
  // machine needs a minute for so many small ones.
  [[nodiscard]] std::optional<int> hold(std::int64_t pages);
  // Frees all of it.
  void drop();

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] const Child& child() const { return child_; }

 private:
  std::optional<int> command(char what, std::int64_t pages);

  UniqueFd command_read_, command_write_, reply_read_, reply_write_;
  Child child_;
};

}  // namespace forestall::test
