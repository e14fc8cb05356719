// SPDX-License-Identifier: Apache-2.0
// A source wakes the loop. Decisions use no value that it reads: the observer reads fresh ones on
// each wake.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/capacity_line.h"
#include "model/crossing.h"
#include "model/feature.h"
#include "model/line.h"
#include "model/oom_kill.h"
#include "model/wake.h"

namespace forestall::sources {

// Thread rule: all calls come from the loop's thread. Nothing here blocks.
class Source {
 public:
  virtual ~Source() = default;

  [[nodiscard]] virtual Feature feature() const = 0;

  // A descriptor that polls readable when drain() has wakes to return. Owned by the source and
  // constant over its life; -1 for a source that is driven by next_due() alone.
  [[nodiscard]] virtual int fd() const = 0;

  // Replaces the watched lines. Called after every observation. A line that cannot be armed (its
  // cgroup was removed, this source cannot watch its limit) is skipped and reported in the notes.
  // An error means that the source as a whole is lost.
  virtual Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) = 0;

  // Whether it watches what this line is compared with. A source that does not wakes at a counter
  // near it at best.
  [[nodiscard]] virtual bool covers(const Line&) const { return true; }

  // Whether it reports a crossing of this line however the memory moves, so that a hint of pressure
  // adds nothing. Not so if it watches usage alone: inactive file pages count too.
  [[nodiscard]] virtual bool follows(const Line&) const { return false; }

  // Arms lines of capacities, which no kernel counter watches; a source that polls them overrides
  // this.
  virtual void watch(std::span<const CapacityLine>, MonotonicTime) {}

  // Appends what happened since the last call. Called when fd() is readable or next_due()
  // passed.
  virtual void drain(MonotonicTime now, std::vector<Wake>& wakes) = 0;

  // What all drains since the last call found at a line, where the source has the reading before.
  [[nodiscard]] virtual std::vector<SourceReadings> take_crossings() { return {}; }
  // The last readings of the watched subjects, also if no event has reported them.
  [[nodiscard]] virtual std::vector<SourceReadings> last_readings() const { return {}; }

  // Kills by the kernel's OOM killer that all drains since the last call reported.
  [[nodiscard]] virtual std::vector<OomKillEvent> take_kills() { return {}; }

  // When the loop must call drain() even though fd() is silent; nullopt: never.
  [[nodiscard]] virtual std::optional<MonotonicTime> next_due() const { return std::nullopt; }
};

}  // namespace forestall::sources
