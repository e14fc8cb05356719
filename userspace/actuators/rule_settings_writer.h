// SPDX-License-Identifier: Apache-2.0
// Makes and undoes what rulesets set of cgroups (v2). Time is an argument.
//
// A write of memory.high below usage reclaims before it returns, for minutes with slow swap. So a
// throttle goes down in steps, one a call, each at most kStep below usage, and all that is to be
// undone is undone before a step. A step that reclaims nothing, or less than the cgroup allocates
// meanwhile, is repeated after a pause: usage is above memory.high then, and the kernel slows down
// the allocations of the cgroup.
//
// Without swap a step reclaims page cache only. memory.high then stays at 32 MiB below the first
// usage, and throttling begins late in a large cgroup: with the share `s` by which usage exceeds
// memory.high, an allocation of 256 KiB is delayed by 64 * s^2 seconds, at most 2 s, and not at all
// below 10 ms, s = 1.25 % (mm/memcontrol.c calculate_high_delay()). So a cgroup of 1 GiB is slowed
// down to 4 MiB/s at once, one of more than 2.5 GiB when it has grown further, to 1.25 % above. A
// lower value would throttle it at once, but that write would reclaim all that becomes reclaimable
// meanwhile before it returns, and nothing is undone during a write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_freeze.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "kernel/memory_high.h"
#include "kernel/setting_records.h"
#include "model/rule_setting.h"

namespace forestall::actuators {

// What came of a setting or a reclaim.
struct RuleSettingResult {
  std::string path;
  std::string what;  // "memory.high", "cgroup.freeze" or "memory.reclaim"
  Bytes wanted;      // of a reclaim
  // Of a reclaim. What the last piece reclaimed of less than it requested is the decrease of usage.
  Bytes reclaimed;
  std::string ruleset;         // of a reclaim
  bool proactive = false;      // of a reclaim
  bool dropped = false;        // of a proactive reclaim: it was not begun in time
  std::uint32_t attempts = 0;  // of an undo that failed, then was done; 0: of anything else
  bool retries = false;        // an undo failed and is tried again
  std::optional<Error> failure;
};

// Thread rule: one thread at a time. The destructor undoes all of it.
class RuleSettingsWriter {
 public:
  // More than this takes about a second with slow swap.
  static constexpr Bytes kStep = mib(32);
  // After a step that did not lower usage.
  static constexpr Duration kStepPause = std::chrono::seconds(1);
  // Times between attempts at an undo that fails: doubled each time.
  static constexpr Duration kFirstRetry = std::chrono::seconds(1);
  static constexpr Duration kLastRetry = std::chrono::seconds(60);

  // Of which places the records of settings are kept.
  struct Records {
    const kernel::SettingRecords& high;
    const kernel::SettingRecords& frozen;
  };

  // `tree` and the records outlive it.
  RuleSettingsWriter(const kernel::CgroupTree& tree, Records records,
                     std::function<void(RuleSettingResult)> report)
      : tree_(tree), records_(records), report_(std::move(report)) {}

  // From the next advance() on exactly these are set, each until its time; of several throttles of
  // a cgroup the lowest one that has not ended. What could not be set is not tried again while it
  // is wanted with the same value.
  void set_wanted(std::vector<RuleSetting> wanted) { requested_ = std::move(wanted); }
  // Undoes what is not wanted or whose time is over, sets what is new, and takes one step of one
  // throttle. Returns when the next call is due: `now`, if a throttle has steps left; nothing: not
  // before the next set_wanted().
  [[nodiscard]] std::optional<MonotonicTime> advance(MonotonicTime now);
  // When the next undo is due, unless its setting is prolonged; max(): none.
  [[nodiscard]] MonotonicTime next_undo() const;
  // Settings whose undo failed and is tried again.
  [[nodiscard]] std::size_t not_undone() const;

 private:
  struct Throttling {
    kernel::MemoryHigh high;
    kernel::HeldFile usage;
    bool is_down = false;  // memory.high is the wanted one
    MonotonicTime next_step{};
  };
  struct Applied {
    RuleSetting setting;
    std::variant<Throttling, kernel::CgroupFreeze> made;
    std::uint32_t failures = 0;  // of the undo
    MonotonicTime retry{};       // after a failure
  };

  [[nodiscard]] const RuleSetting* wanted_of(const RuleSetting& applied) const;
  [[nodiscard]] bool has_failed(const RuleSetting& setting) const;
  void undo_what_is_over(MonotonicTime now);
  // False: it failed.
  [[nodiscard]] bool undo(Applied& applied, MonotonicTime now);
  void make(const RuleSetting& wanted);
  [[nodiscard]] Result<Applied> made(const RuleSetting& wanted) const;
  void take_step(MonotonicTime now);
  [[nodiscard]] Result<void> step_down(const RuleSetting& wanted, Throttling& made,
                                       MonotonicTime now);
  [[nodiscard]] std::optional<MonotonicTime> next_due(MonotonicTime now) const;
  void failed(const RuleSetting& setting, const Error& failure);

  const kernel::CgroupTree& tree_;
  const Records records_;
  const std::function<void(RuleSettingResult)> report_;
  std::vector<RuleSetting> requested_;
  std::vector<RuleSetting> wanted_;  // of them those in force: one of each file
  std::list<Applied> applied_;       // the throttle whose step was taken last is the last
  std::vector<RuleSetting> failed_;
  std::string buffer_;
};

}  // namespace forestall::actuators
