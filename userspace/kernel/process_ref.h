// SPDX-License-Identifier: Apache-2.0
// A process held by pidfd, so that a signal never reaches another process with a reused pid.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/ids.h"

namespace forestall::kernel {

// The used fields of /proc/PID/stat (fs/proc/array.c do_task_stat).
struct ProcessStat {
  pid_t parent = 0;               // field 4; 0 for pid 1 and for a parent outside our pid namespace
  bool kernel_thread = false;     // PF_KTHREAD of field 9
  std::uint64_t start_ticks = 0;  // field 22, clock ticks since boot
  bool exited = false;            // Z or X of field 3: a leader may exit before its threads
  bool exiting = false;           // PF_EXITING of field 9: its end has begun
};

// The comm field may contain any character, including parentheses and newlines. So the fields are
// counted from the last ')', after which the kernel prints only numbers and one letter.
[[nodiscard]] Result<ProcessStat> parse_process_stat(std::string_view stat);
// /proc/PID/stat of a process. ESRCH: there is no such process.
[[nodiscard]] Result<ProcessStat> read_process_stat(pid_t pid);
// Start time of a live process, read from /proc.
[[nodiscard]] Result<ProcessId> read_process_id(pid_t pid);

// Resident pages of a process from /proc/PID/statm; 0 if it cannot be read. Allocates nothing.
[[nodiscard]] std::uint64_t resident_pages(pid_t pid);

// A bare pidfd (always O_CLOEXEC). Identifies the right process only for a child that is not reaped
// yet.
[[nodiscard]] Result<UniqueFd> open_pidfd(pid_t pid);

class ProcessRef {
 public:
  // Opens a pidfd and reads the start time from /proc while the pidfd pins the identity. ESRCH:
  // there is no such process, or not any more. EINVAL (ENOENT since 6.14): `pid` is a thread that
  // does not lead its group.
  static Result<ProcessRef> open(pid_t pid);

  [[nodiscard]] const ProcessId& id() const { return id_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool kernel_thread() const { return kernel_thread_; }

  // pidfd_send_signal. ESRCH: the process was reaped. Signal 0 only checks for that.
  [[nodiscard]] Result<void> send_signal(int signal) const;
  // One process_mrelease call: frees the anonymous memory of a dying process from this thread.
  // EINVAL: not dying yet, or another process shares its mm. ESRCH: nothing left to free (success
  // for the caller). EAGAIN: partly done, call again.
  [[nodiscard]] Result<void> release_memory() const;
  // Whether it has exited (its pidfd polls readable). Never blocks.
  [[nodiscard]] bool exited() const;
  // A second descriptor of the same process, which another thread can own.
  [[nodiscard]] Result<UniqueFd> duplicate() const;
  // A second reference to the same process.
  [[nodiscard]] Result<ProcessRef> copy() const;

 private:
  ProcessRef(ProcessId id, bool kernel_thread, UniqueFd fd)
      : id_(id), kernel_thread_(kernel_thread), fd_(std::move(fd)) {}
  ProcessId id_;
  bool kernel_thread_ = false;
  UniqueFd fd_;
};

// ProcessRef::release_memory() for a bare descriptor, as the reaper thread has. Returns 0 or an
// errno, because a retry loop must not build error texts.
[[nodiscard]] int release_memory_of(int pidfd);

// Whether the process still runs. A zombie does not.
[[nodiscard]] bool is_running(const ProcessId& process);

}  // namespace forestall::kernel
