// SPDX-License-Identifier: Apache-2.0
// A process held by pidfd, so that a reused pid can never be signalled in its place.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/ids.h"

namespace forestall::kernel {

// Start time (field 22) from the text of /proc/PID/stat; the comm field may hold anything,
// parentheses and newlines included.
[[nodiscard]] Result<std::uint64_t> parse_start_ticks(std::string_view stat);
// Start time of a live process, read from /proc.
[[nodiscard]] Result<ProcessId> read_process_id(pid_t pid);

class ProcessRef {
 public:
  // Opens a pidfd and reads the start time through /proc while the pidfd pins the identity.
  // ESRCH when there is no such process (any more).
  static Result<ProcessRef> open(pid_t pid);

  [[nodiscard]] const ProcessId& id() const { return id_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

  // pidfd_send_signal. ESRCH when it has been reaped already.
  [[nodiscard]] Result<void> send_signal(int signal) const;
  // One process_mrelease call: frees the anonymous memory of a dying process from this thread.
  // EINVAL: not dying yet, or its mm lives on elsewhere. ESRCH: nothing left to free (success for
  // the caller). EAGAIN: partly done, call again.
  [[nodiscard]] Result<void> release_memory() const;
  // Whether it has exited (its pidfd polls readable). Never blocks.
  [[nodiscard]] bool exited() const;

 private:
  ProcessRef(ProcessId id, UniqueFd fd) : id_(id), fd_(std::move(fd)) {}
  ProcessId id_;
  UniqueFd fd_;
};

}  // namespace forestall::kernel
