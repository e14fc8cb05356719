// SPDX-License-Identifier: Apache-2.0
// The memory.high of memory QoS with `enforce`: writes it (actuators/memory_high_writer.h), watches
// whether the throttled cgroups make progress (sources/throttle_reader.h), and lifts the value of
// those that do not (policy/throttle_lift.h).
//
// A cgroup whose progress cannot be seen gets no memory.high.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actuators/memory_high_writer.h"
#include "agent/lift_headroom.h"
#include "base/clock.h"
#include "base/result.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "policy/throttle_lift.h"
#include "sources/throttle_reader.h"

namespace forestall::agent {

// Thread rule: one thread at a time. The destructor restores every memory.high.
class MemoryHighController {
 public:
  // Between two readings of a cgroup that is throttled or lifted.
  static constexpr Duration kReadEvery = std::chrono::seconds(1);

  struct LiftRule {
    Duration stall_max;
    // What is left to the node (policy::lift_headroom). Nothing: unknown, and nothing is lifted.
    std::optional<Bytes> reserve;
  };

  // REQUIRES: cgroup v2. The references outlive it.
  static Result<std::unique_ptr<MemoryHighController>> create(const kernel::CgroupTree& tree,
                                                              const kernel::SettingRecords& records,
                                                              exports::Log& log,
                                                              const std::string& proc = "/proc");

  // From now on exactly these are present, or lifted.
  void apply(const std::vector<actuators::MemoryReserve>& wanted, const LiftRule& rule,
             MonotonicTime now);
  // What is due: one step, readings, lifts. Whether an outcome has changed.
  bool advance(MonotonicTime now);
  // Readable when advance() has something to do before next_due().
  [[nodiscard]] int fd() const { return reader_->fd(); }
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;

  // Nothing: it is not wanted.
  [[nodiscard]] std::optional<actuators::ReserveOutcome> outcome(CgroupId cgroup) const;
  [[nodiscard]] const std::vector<std::pair<actuators::MemoryReserve, std::string>>& not_restored()
      const {
    return writer_.not_restored();
  }
  [[nodiscard]] std::uint64_t rewrites() const { return writer_.rewrites(); }
  [[nodiscard]] std::uint64_t lifts() const { return lifts_; }

 private:
  struct Throttled {
    actuators::MemoryReserve wanted;
    policy::ThrottleLiftState state = {};
    std::optional<MonotonicTime> next_reading = {};  // nothing: with the next event
    std::string not_lifted = {};                     // why; logged once for each stall
  };

  MemoryHighController(const kernel::CgroupTree& tree, const kernel::SettingRecords& records,
                       exports::Log& log, std::unique_ptr<sources::ThrottleReader> reader,
                       LiftHeadroom headroom)
      : log_(log),
        reader_(std::move(reader)),
        headroom_(std::move(headroom)),
        writer_(tree, records) {}
  void take_events(MonotonicTime now);
  [[nodiscard]] bool take_reading(Throttled& throttled, MonotonicTime now);
  void wait_for_event(Throttled& throttled, MonotonicTime now);
  // The times of its rule begin anew.
  static void restart(Throttled& throttled);
  [[nodiscard]] bool lift(Throttled& throttled, Duration stalled);
  [[nodiscard]] Result<Bytes> raise(const Throttled& throttled, Bytes from, Duration stalled);
  [[nodiscard]] std::vector<LiftGrant> grants_of_lifts() const;

  exports::Log& log_;
  const std::unique_ptr<sources::ThrottleReader> reader_;
  LiftHeadroom headroom_;
  actuators::MemoryHighWriter writer_;
  LiftRule rule_{};
  std::map<CgroupId, Throttled> throttled_;
  std::map<CgroupId, actuators::ReserveOutcome> unwatched_;  // they get no memory.high
  std::uint64_t lifts_ = 0;
};

}  // namespace forestall::agent
