// SPDX-License-Identifier: Apache-2.0
// Prepares the guard's regular lists: the loop samples the workloads, in turns, and a thread ranks
// them and approves processes (regular_list_job.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "agent/growth_watch.h"
#include "agent/guard_list_thread.h"
#include "agent/guard_parts.h"
#include "agent/regular_list_job.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class RegularGuard {
 public:
  // `thread` outlives the object.
  RegularGuard(const GuardParts& parts, GuardListThread& thread) : parts_(parts), thread_(thread) {}

  // Lists of workloads that `source` has. What was under way is dropped.
  void start(RegularListSource source);
  // The same, of workloads that work() samples first.
  void sample(RegularListSource source);
  void cancel();

  // Lists are under way.
  [[nodiscard]] bool working() const { return sampling_ || job_; }
  // When work() is due.
  [[nodiscard]] std::optional<MonotonicTime> sampling_due() const {
    return sampling_ ? std::optional(sampling_->due) : std::nullopt;
  }
  // Samples for a turn. REQUIRES: sampling_due().
  void work(const GrowthWatch& growth);
  // The lists, once they are done; else null.
  [[nodiscard]] std::shared_ptr<RegularListJob> take();

 private:
  struct Sampling {
    RegularListSource source;
    MonotonicTime due;  // the next turn: at once
    std::size_t next = 0;
    std::uint64_t changes = 0;  // Observer::workload_changes()
    int restarts = 0;           // because workloads came or went
  };

  [[nodiscard]] bool sample_for_this_turn();

  const GuardParts parts_;
  GuardListThread& thread_;
  std::optional<Sampling> sampling_;
  std::shared_ptr<RegularListJob> job_;
};

}  // namespace forestall::agent
