// SPDX-License-Identifier: Apache-2.0
// When to evaluate.
//
// - A wake that reports usage above a line is evaluated at once.
// - A hint (reclaim, stall, PSI, a change of the tree) waits until usage could have reached the
//   nearest line since the last evaluation. Reason: any process can cause hints all day, and the
//   loop runs at real-time priority. While the kernel reports each line and all of them are far,
//   hints of pressure cause an evaluation every five seconds at most.
// - Progress of a kill that does not change its state waits 10 ms.
// - If a threshold is met and no action is possible, the next evaluation follows after a delay that
//   doubles each time. Sources do not wake the loop again meanwhile: they report a met line once.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/decision.h"
#include "model/wake.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class WakeScheduler {
 public:
  // The wake to evaluate now. Nothing: all of them are hints, and one of them is deferred.
  // `rescan_at` is when a changed tree may be rescanned. REQUIRES: `wakes` is not empty.
  [[nodiscard]] std::optional<Wake> admit(const std::vector<Wake>& wakes, MonotonicTime rescan_at,
                                          MonotonicTime now);
  // Evaluates `wake` at `until`, unless another evaluation begins before.
  void defer(const Wake& wake, MonotonicTime until);

  // An evaluation begins: it serves the deferred wake as well.
  void begin(MonotonicTime now);
  // Of the lines that were armed by it: see ArmedLines.
  void set_hint_headroom(std::optional<Bytes> headroom) { hint_headroom_ = headroom; }
  // Evaluates again after a delay while a threshold requires an eviction; the delay doubles each
  // time.
  void schedule_retry(const Decision& decision, MonotonicTime now);
  // Evaluates again at a given time, whatever was decided.
  void set_retry(MonotonicTime at) { retry_at_ = at; }
  // When time alone changes the answer.
  void set_deadline(std::optional<MonotonicTime> deadline) { deadline_ = deadline; }

  [[nodiscard]] MonotonicTime began_at() const { return began_at_; }
  [[nodiscard]] bool awaits_retry() const { return retry_at_.has_value(); }
  // The deferred wake whose time has come.
  [[nodiscard]] std::optional<Wake> ready_wake(MonotonicTime now) const;
  [[nodiscard]] bool deadline_due(MonotonicTime now) const {
    return deadline_ && *deadline_ <= now;
  }
  [[nodiscard]] bool retry_due(MonotonicTime now) const { return retry_at_ && *retry_at_ <= now; }
  // The first of these times.
  [[nodiscard]] std::optional<MonotonicTime> next() const;

 private:
  [[nodiscard]] MonotonicTime admitted_at(const Wake& wake, MonotonicTime rescan_at) const;

  std::optional<Wake> deferred_;
  std::optional<MonotonicTime> deferred_until_;
  std::optional<MonotonicTime> deadline_;
  std::optional<MonotonicTime> retry_at_;
  Duration retry_delay_{0};
  MonotonicTime began_at_;
  std::optional<Bytes> hint_headroom_ = Bytes{0};
};

}  // namespace forestall::agent
