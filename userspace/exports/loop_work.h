// SPDX-License-Identifier: Apache-2.0
// How long the loop's thread works without returning to its event loop, and on what. While it works
// the next crossing waits, so the longest such stretch bounds how late an evaluation begins.
//
// The loop measures and other threads read, by atomics without a lock. A reader may see parts of
// two stretches; each single number is correct. Time in which the thread waits for a lock or for a
// CPU counts like any other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "exports/log_line.h"

namespace forestall::exports {

enum class LoopWork : std::uint8_t {
  other,
  events,      // reading the events of sources
  observe,     // reading the node and the subjects
  candidates,  // reading the candidates of a threshold that is met
  after_kill,  // the same, while memory of a victim is pending release
  rescan,      // listing the cgroup tree and opening what is new
  sample,      // reading workloads in advance, for a list or a baseline
  rank,        // the policy's decisions and lists
  pin,         // opening the processes of likely victims
  arm,         // arming sources
  kill,        // verifying and signalling a victim
  ladder,      // advancing kills
  guard,       // the guard's list
  report,      // records, metrics, status
};
inline constexpr std::size_t kLoopWorkCount = 14;

// Empty for an invalid value.
[[nodiscard]] std::string_view to_string(LoopWork work);

class LoopWorkTally {
 public:
  struct Summary {
    Duration longest{0};     // the most of this work within one stretch
    Duration in_longest{0};  // this work within the longest stretch
    Duration total{0};
  };

  struct Stretch {
    Duration length{0};
    LoopWork most = LoopWork::other;  // on which the thread spent the most time
    Duration of_most{0};
  };
  // From which length on a stretch is logged. The longest of a healthy agent take a few
  // milliseconds, and the watchdog waits for 250.
  static constexpr Duration kLongStretch = std::chrono::milliseconds(100);

  LoopWorkTally();
  // `clock` outlives it.
  explicit LoopWorkTally(const Clock& clock) : clock_(clock) {}

  // ---- the loop's thread ----

  // A stretch begins `now`, with work of no other kind.
  void begin(MonotonicTime now);
  // The thread returns to its event loop. What it did since begin().
  Stretch end();

  // Work of one kind until it is destroyed. An inner one counts for its own kind only. Does nothing
  // outside of a stretch.
  class [[nodiscard]] Scope {
   public:
    Scope(LoopWorkTally& tally, LoopWork work) : tally_(tally), before_(tally.turn_to(work)) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { tally_.turn_to(before_); }

   private:
    LoopWorkTally& tally_;
    const LoopWork before_;
  };

  // ---- any thread ----

  [[nodiscard]] std::uint64_t stretches() const { return stretches_; }
  [[nodiscard]] Duration longest() const { return Duration(longest_ns_.load()); }
  [[nodiscard]] Summary summary(LoopWork work) const;

 private:
  struct Counts {
    std::atomic<std::int64_t> longest_ns{0};
    std::atomic<std::int64_t> in_longest_ns{0};
    std::atomic<std::int64_t> total_ns{0};
  };

  // Returns the kind of work before.
  LoopWork turn_to(LoopWork work);

  const Clock& clock_;
  // Of the stretch that lasts.
  bool works_ = false;
  LoopWork work_ = LoopWork::other;
  MonotonicTime since_;
  std::array<Duration, kLoopWorkCount> spent_{};

  std::atomic<std::uint64_t> stretches_{0};
  std::atomic<std::int64_t> longest_ns_{0};
  std::array<Counts, kLoopWorkCount> counts_;
};

// What to log of a stretch; nothing: it was not long.
[[nodiscard]] std::optional<LogLine> long_stretch_line(const LoopWorkTally::Stretch& stretch);

using LoopWorkScope = LoopWorkTally::Scope;

}  // namespace forestall::exports
