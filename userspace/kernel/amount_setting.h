// SPDX-License-Identifier: Apache-2.0
// A file of a cgroup that holds one amount (memory.min, memory.low, memory.high), and the record of
// what the agent wrote there (kernel/setting_records.h). Text of a record:
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
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/ids.h"

namespace forestall::kernel {

struct AmountRecord {
  std::optional<Bytes> original;  // nothing: "max"
  std::optional<Bytes> old_value;
  std::optional<Bytes> new_value;
  std::optional<ProcessId> owner;  // nothing: a text without one; its setting may be undone

  friend bool operator==(const AmountRecord&, const AmountRecord&) = default;
};
[[nodiscard]] std::string to_string(const AmountRecord& record);
[[nodiscard]] Result<AmountRecord> parse_amount_record(std::string_view text);
// Whether the process that wrote the record still runs. A zombie does not.
[[nodiscard]] bool owner_is_running(const AmountRecord& record);

// "max" for nothing.
[[nodiscard]] std::string amount_text(const std::optional<Bytes>& amount);
// `name` is the file's name in errors.
[[nodiscard]] Result<std::optional<Bytes>> read_amount(int fd, std::string_view name);
// Of a file of `cgroup`.
[[nodiscard]] Result<std::optional<Bytes>> read_amount(const CgroupDir& cgroup, const char* file);
// memory.current of `cgroup`.
[[nodiscard]] Result<Bytes> read_usage(const CgroupDir& cgroup);
[[nodiscard]] Result<void> write_amount(int fd, const std::optional<Bytes>& amount,
                                        std::string_view name);
// Restores the original of `record` if the current value is still one of the record's.
[[nodiscard]] Result<void> undo_amount(int fd, const AmountRecord& record, std::string_view name);

// Restores what a killed agent wrote to `file` of cgroups (v2; does nothing on v1). Skips records
// of running processes. Returns one line for each cgroup that was restored or could not be. A dry
// run writes nothing, and returns a line for each cgroup that it leaves as it is. A memory.high is
// restored as by MemoryHigh::restore(), all of them within about a second.
[[nodiscard]] std::vector<std::string> restore_leftovers(const CgroupTree& tree,
                                                         const SettingRecords& records,
                                                         bool dry_run,
                                                         const char* file = "memory.high");

}  // namespace forestall::kernel
