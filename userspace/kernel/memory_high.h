// SPDX-License-Identifier: Apache-2.0
// Sets memory.high of one cgroup temporarily, below or above its original, and always restores it.
//
// The destructor restores it. SIGKILL runs no destructor, so before the first write the original is
// recorded (kernel/amount_setting.h). The next start reads the records (restore_leftovers) and
// restores the originals.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/ids.h"

namespace forestall::kernel {

class MemoryHigh {
 public:
  // Opens memory.high and saves its value; changes nothing yet. ENOENT on cgroup v1, on the root,
  // and if the memory controller is off. `records` must outlive it.
  static Result<MemoryHigh> open(const CgroupDir& cgroup, const SettingRecords& records);
  MemoryHigh(MemoryHigh&&) noexcept = default;
  MemoryHigh& operator=(MemoryHigh&&) = delete;
  ~MemoryHigh();

  // The value before the first set(); nothing is "max".
  [[nodiscard]] const std::optional<Bytes>& original() const { return original_; }
  // The value that set() wrote, if any.
  [[nodiscard]] const std::optional<Bytes>& current() const { return ours_; }
  // What the file has now.
  [[nodiscard]] Result<std::optional<Bytes>> read() const;

  // Writes the record, then `value` rounded down to a page. EPERM: the original is not higher, and
  // the value is never raised. EBUSY: another process or setting has changed the file meanwhile, or
  // another running process has a record. Other errors: the record could not be written. REQUIRES:
  // usage is below `value`; otherwise the kernel reclaims in this thread before the write returns.
  [[nodiscard]] Result<void> set(Bytes value);
  // The same, but only above the original. EPERM: the original is not lower, or "max".
  [[nodiscard]] Result<void> raise(const CgroupDir& cgroup, Bytes value);
  // Writes the original back and deletes the record. Does nothing if nothing was set, if the cgroup
  // was removed, or if another process has changed the file.
  //
  // After raise() the original may be below usage, and the kernel would reclaim in this thread, for
  // minutes with slow swap. It is lowered in steps of 32 MiB below usage then. EAGAIN: `end` came
  // first; the record stays, and a further call goes on.
  [[nodiscard]] Result<void> restore(MonotonicTime end = {});
  // The same for what an agent that was killed has left in `cgroup`, if anything. Does nothing
  // while the owner of the record runs.
  [[nodiscard]] static Result<void> undo_leftover(const CgroupDir& cgroup,
                                                  const SettingRecords& records, MonotonicTime end);

 private:
  MemoryHigh(const SettingRecords& records, const CgroupDir& cgroup, UniqueFd file,
             std::optional<Bytes> original, ProcessId self);
  // EBUSY: the file has another value.
  [[nodiscard]] Result<void> check_is(const std::optional<Bytes>& expected) const;
  [[nodiscard]] Result<void> write(Bytes rounded);
  void watch_usage(const CgroupDir& cgroup);
  [[nodiscard]] Result<void> lower(MonotonicTime end);
  [[nodiscard]] Result<void> record(const std::optional<Bytes>& before, Bytes value) const;

  const SettingRecords* records_;
  CgroupId cgroup_;
  std::string path_;
  UniqueFd file_;
  UniqueFd usage_;  // memory.current, of a value that may have to be lowered
  std::string name_;
  std::optional<Bytes> original_;
  std::optional<Bytes> ours_;
  ProcessId self_;  // the owner in our records
};

}  // namespace forestall::kernel
