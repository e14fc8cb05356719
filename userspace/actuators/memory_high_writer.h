// SPDX-License-Identifier: Apache-2.0
// Writes the memory.high of memory QoS (v2), and restores what was there before.
//
// A value is never raised above the original. One below usage is written in steps, as in
// actuators/rule_settings_writer.h: the kernel reclaims in the writing thread, which can take a
// second. Only advance() takes a step, of one cgroup, so that the caller can end between two. The
// records are those of every memory.high that the agent sets (kernel/memory_high.h): of two
// settings of one cgroup the first one applies, and the next start restores what a killed agent
// left.
//
// A memory.high that is back at the original was reset by another process, and is written again, as
// often as in actuators/memory_reserve_writer.h. Any other value is left until it is not wanted any
// more.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actuators/memory_reserve_writer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/memory_high.h"
#include "kernel/setting_records.h"
#include "model/ids.h"

namespace forestall::actuators {

// Thread rule: one thread at a time. The destructor restores everything.
class MemoryHighWriter {
 public:
  // REQUIRES: cgroup v2. `tree` and `records` outlive it.
  MemoryHighWriter(const kernel::CgroupTree& tree, const kernel::SettingRecords& records)
      : tree_(tree), records_(records) {}
  MemoryHighWriter(const MemoryHighWriter&) = delete;
  MemoryHighWriter& operator=(const MemoryHighWriter&) = delete;

  // From now on exactly these are present, except those whose steps begin with the next advance().
  // What could not be restored is tried again at the next call.
  void apply(const std::vector<MemoryReserve>& wanted, MonotonicTime now);
  // Takes the step that is due first, if any. Whether an outcome has changed.
  bool advance(MonotonicTime now);
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;
  // When this one's next step is due; nothing: no step is left.
  [[nodiscard]] std::optional<MonotonicTime> next_step(CgroupId cgroup) const;

  // Null: it is not wanted.
  [[nodiscard]] const ReserveOutcome* outcome(CgroupId cgroup) const;
  // What the agent has written; nothing: nothing.
  [[nodiscard]] std::optional<Bytes> present(CgroupId cgroup) const;
  // What is present by a lift.
  [[nodiscard]] std::optional<Bytes> lifted(CgroupId cgroup) const;
  // What was there before; nothing: "max", or unknown.
  [[nodiscard]] std::optional<Bytes> original(CgroupId cgroup) const;

  // Writes `high` in place of the wanted value, until end_lift() or a higher wanted one. The
  // original is restored if it is not above `high`. REQUIRES: it is wanted, and the agent has
  // written it.
  [[nodiscard]] Result<void> lift(CgroupId cgroup, Bytes high, std::string reason);
  void end_lift(CgroupId cgroup, MonotonicTime now);

  // Of the last apply(): what could not be restored, and the reason.
  [[nodiscard]] const std::vector<std::pair<MemoryReserve, std::string>>& not_restored() const {
    return not_restored_;
  }
  [[nodiscard]] std::uint64_t rewrites() const { return rewrites_; }

 private:
  // Whether a write may make the kernel reclaim in this thread.
  enum class Reclaim : bool { no, yes };
  struct HighSetting {
    MemoryReserve wanted;
    std::optional<kernel::MemoryHigh> high = {};
    std::optional<Bytes> lifted = {};
    std::string lift_reason = {};
    std::optional<MonotonicTime> next_step = {};  // nothing: no step is left
    std::deque<MonotonicTime> rewrites = {};
    bool is_lost = false;   // another process has written a value of its own
    bool is_taken = false;  // the last write was refused: another holder has it
    ReserveOutcome outcome = {};
  };

  void restore_unwanted(const std::vector<MemoryReserve>& wanted);
  void bring(HighSetting& setting, MonotonicTime now, Reclaim reclaim);
  [[nodiscard]] Result<ReserveOutcome> write(HighSetting& setting, MonotonicTime now,
                                             Reclaim reclaim);
  [[nodiscard]] Result<void> open(HighSetting& setting) const;
  // Nothing: the file has what is expected.
  [[nodiscard]] Result<std::optional<ReserveOutcome>> check_present(HighSetting& setting,
                                                                    MonotonicTime now);
  [[nodiscard]] Result<ReserveOutcome> step_down(HighSetting& setting, MonotonicTime now,
                                                 Reclaim reclaim) const;

  const kernel::CgroupTree& tree_;
  const kernel::SettingRecords& records_;
  std::map<CgroupId, HighSetting> settings_;
  std::vector<std::pair<MemoryReserve, std::string>> not_restored_;
  std::uint64_t rewrites_ = 0;
};

}  // namespace forestall::actuators
