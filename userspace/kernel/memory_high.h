// SPDX-License-Identifier: Apache-2.0
// memory.high of one cgroup, borrowed: set for a while, and given back whatever happens.
//
// The destructor gives it back; an agent that is killed with SIGKILL runs no destructor. So before
// the first write the original is recorded in an extended attribute of the cgroup's directory,
// user.forestall.memory_high (trusted.… where user.… is refused). The next start finds the records
// (restore_leftovers) and undoes what is left. Text of a record:
//   <original> <old> <new> <pid> <start ticks>
// The current value must be <old> or <new> (the write may or may not have happened); if it is
// neither, somebody else has taken the setting over and it is left alone. The last two say whose
// record it is: a second agent beside a living one must not undo that one's setting.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/ids.h"

namespace forestall::kernel {

struct MemoryHighRecord {
  std::optional<Bytes> original;  // nothing: "max"
  std::optional<Bytes> old_value;
  std::optional<Bytes> new_value;
  std::optional<ProcessId> owner;  // nothing: the text ends before it, and nobody is protected

  friend bool operator==(const MemoryHighRecord&, const MemoryHighRecord&) = default;
};
[[nodiscard]] std::string to_string(const MemoryHighRecord& record);
[[nodiscard]] Result<MemoryHighRecord> parse_memory_high_record(std::string_view text);

class MemoryHigh {
 public:
  // Opens memory.high and remembers its value; changes nothing yet. ENOENT on cgroup v1, on the
  // root, and where the memory controller is off.
  static Result<MemoryHigh> open(const CgroupDir& cgroup);
  MemoryHigh(MemoryHigh&&) noexcept = default;
  MemoryHigh& operator=(MemoryHigh&&) = delete;
  ~MemoryHigh();

  // What it was before us; nothing is "max".
  [[nodiscard]] const std::optional<Bytes>& original() const { return original_; }
  // The value set by us, if any.
  [[nodiscard]] const std::optional<Bytes>& current() const { return ours_; }

  // Records, then writes `value` rounded down to a page. Refused with EPERM when the original is
  // lower (it is never raised), with EBUSY when somebody else has changed it meanwhile or another
  // living process has it on record, with the xattr's error when no record can be kept. REQUIRES:
  // usage is below `value`; the kernel would otherwise reclaim in this thread before the write
  // returns.
  [[nodiscard]] Result<void> set(Bytes value);
  // Writes the original back and drops the record. Nothing to do when nothing was set, when the
  // cgroup is gone, or when somebody else has changed it.
  [[nodiscard]] Result<void> restore();

 private:
  MemoryHigh(UniqueFd directory, UniqueFd file, std::string name, std::optional<Bytes> original,
             ProcessId self);
  UniqueFd directory_;  // readable, for the extended attribute
  UniqueFd file_;
  std::string name_;
  std::optional<Bytes> original_;
  std::optional<Bytes> ours_;
  ProcessId self_;  // the owner in our records
};

// Undoes what a killed agent left behind, in the whole tree (v2; nothing to do on v1); records of
// processes that still live are passed over. Returns one line per cgroup that was restored or could
// not be. Start only: walks every cgroup.
[[nodiscard]] std::vector<std::string> restore_leftovers(const CgroupTree& tree);

}  // namespace forestall::kernel
