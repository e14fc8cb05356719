// SPDX-License-Identifier: Apache-2.0
// When to evaluate.
//
// - A wake that reports usage above a line is evaluated at once.
// - A hint (reclaim, stall, PSI, a change of the tree) waits until usage could have reached the
//   nearest line since the last evaluation. Reason: any process can cause hints all day, and the
//   loop runs at real-time priority.
// - Progress of a kill that does not change its state waits 10 ms.
// - If a threshold is met and no action is possible, the next evaluation follows after a delay that
//   doubles each time. Sources do not wake the loop again meanwhile: they report a met line once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/wake.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class WakeScheduler {
 public:
  // The wake to evaluate now. Nothing: all of them are hints, and one of them is deferred.
  // `tree_due` is when a changed tree may be rescanned. REQUIRES: `wakes` is not empty.
  [[nodiscard]] std::optional<Wake> admit(const std::vector<Wake>& wakes, MonotonicTime tree_due,
                                          MonotonicTime now);
  // Evaluates `wake` at `until`, unless another evaluation begins before.
  void defer(const Wake& wake, MonotonicTime until);

  // An evaluation begins: it serves the deferred wake as well.
  void begin(MonotonicTime now);
  // The lines that were armed by it.
  void set_lines(std::span<const Line> lines);
  // Holds while a threshold requires an eviction; the length doubles with each hold.
  void hold(const Decision& decision, MonotonicTime now);
  // Holds until a given time, whatever was decided.
  void hold_until(MonotonicTime until) { hold_until_ = until; }
  // When time alone changes the answer.
  void set_deadline(std::optional<MonotonicTime> deadline) { deadline_ = deadline; }

  [[nodiscard]] MonotonicTime began_at() const { return began_at_; }
  [[nodiscard]] bool holds() const { return hold_until_.has_value(); }
  // The deferred wake whose time has come.
  [[nodiscard]] std::optional<Wake> deferred_due(MonotonicTime now) const;
  [[nodiscard]] bool deadline_due(MonotonicTime now) const {
    return deadline_ && *deadline_ <= now;
  }
  [[nodiscard]] bool hold_due(MonotonicTime now) const {
    return hold_until_ && *hold_until_ <= now;
  }
  // The first of these times.
  [[nodiscard]] std::optional<MonotonicTime> next() const;

 private:
  [[nodiscard]] MonotonicTime due(const Wake& wake, MonotonicTime tree_due) const;

  std::optional<Wake> deferred_;
  std::optional<MonotonicTime> deferred_until_;
  std::optional<MonotonicTime> deadline_;
  std::optional<MonotonicTime> hold_until_;
  Duration hold_length_{0};
  MonotonicTime began_at_;
  Bytes nearest_headroom_;  // of the lines that are not met
};

}  // namespace forestall::agent
