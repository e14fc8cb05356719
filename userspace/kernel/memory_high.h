// SPDX-License-Identifier: Apache-2.0
// Sets memory.high of one cgroup temporarily and always restores it.
//
// The destructor restores it. SIGKILL runs no destructor, so before the first write the original is
// recorded (kernel/setting_records.h). The next start reads the records (restore_leftovers) and
// restores the originals. Text of a record:
//   <original> <old> <new> <pid> <start ticks>
// The current value must be <old> or <new>, because the write may or may not have happened. If it
// is neither, another process has changed the setting and it stays. The last two identify the owner
// of the record: a second agent must not undo the setting of a running one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/ids.h"

namespace forestall::kernel {

struct MemoryHighRecord {
  std::optional<Bytes> original;  // nothing: "max"
  std::optional<Bytes> old_value;
  std::optional<Bytes> new_value;
  std::optional<ProcessId> owner;  // nothing: a text without one; its setting may be undone

  friend bool operator==(const MemoryHighRecord&, const MemoryHighRecord&) = default;
};
[[nodiscard]] std::string to_string(const MemoryHighRecord& record);
[[nodiscard]] Result<MemoryHighRecord> parse_memory_high_record(std::string_view text);

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

  // Writes the record, then `value` rounded down to a page. EPERM: the original is not higher, and
  // the value is never raised. EBUSY: another process has changed the file meanwhile, or another
  // running process has a record. Other errors: the record could not be written. REQUIRES: usage is
  // below `value`; otherwise the kernel reclaims in this thread before the write returns.
  [[nodiscard]] Result<void> set(Bytes value);
  // Writes the original back and deletes the record. Does nothing if nothing was set, if the cgroup
  // was removed, or if another process has changed the file.
  [[nodiscard]] Result<void> restore();

 private:
  MemoryHigh(const SettingRecords& records, const CgroupDir& cgroup, UniqueFd file,
             std::optional<Bytes> original, ProcessId self);
  [[nodiscard]] Result<void> record(const std::optional<Bytes>& before, Bytes value) const;

  const SettingRecords* records_;
  CgroupId cgroup_;
  std::string path_;
  UniqueFd file_;
  std::string name_;
  std::optional<Bytes> original_;
  std::optional<Bytes> ours_;
  ProcessId self_;  // the owner in our records
};

// Restores the settings of a killed agent (v2; does nothing on v1). Skips records of running
// processes. Returns one line for each cgroup that was restored or could not be. A dry run writes
// nothing, and returns a line for each cgroup that it leaves as it is.
[[nodiscard]] std::vector<std::string> restore_leftovers(const CgroupTree& tree,
                                                         const SettingRecords& records,
                                                         bool dry_run);

}  // namespace forestall::kernel
