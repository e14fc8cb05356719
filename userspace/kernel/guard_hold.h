// SPDX-License-Identifier: Apache-2.0
// Holds a guard back while another one is in force that it can neither take over nor end: the place
// that keeps it was refused, is another one now, or could not be read. Both would fire for one
// crossing. Also while the memory of a former guard's kill is awaited.
#pragma once

#include "bpf/abi/guard.h"
// Uses the types above.
#include <forestall_guard.skel.h>

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace forestall::kernel {

// Thread rule: one thread at a time.
class GuardHold {
 public:
  static constexpr Duration kRecheck = std::chrono::seconds(1);

  // `object` is loaded and outlives the hold.
  explicit GuardHold(forestall_guard& object) : object_(object) {}

  // Before this guard's first list. Only guards without an agent that runs count.
  void begin(MonotonicTime now);
  // Ends the hold early if the others are gone.
  void refresh(MonotonicTime now);
  // A former guard may have killed a workload whose memory is awaited until then.
  void await_release(MonotonicTime until);
  // When refresh() checks again; nullopt: there is no hold.
  [[nodiscard]] std::optional<MonotonicTime> check_due() const;

  // No list fires before; nullopt: they may.
  [[nodiscard]] std::optional<MonotonicTime> until() const { return until_; }
  // Whether memory is awaited.
  [[nodiscard]] bool awaits_release(MonotonicTime now) const { return now < release_due_; }
  // Why, for people; empty: it was not held back.
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  [[nodiscard]] std::optional<MonotonicTime> others_until(MonotonicTime now);
  [[nodiscard]] Result<void> find_others();
  void hold(std::optional<MonotonicTime> others, MonotonicTime now);

  forestall_guard& object_;
  MonotonicTime began_;
  MonotonicTime checked_;
  std::optional<MonotonicTime> until_;
  MonotonicTime release_due_;
  std::string reason_;
};

}  // namespace forestall::kernel
