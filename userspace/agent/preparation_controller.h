// SPDX-License-Identifier: Apache-2.0
// What the loop does between evaluations so that the next kill is fast and ranked by growth: it
// ranks victims in the warning zone, and samples all workloads outside of it.
#pragma once

#include <optional>

#include "agent/growth_watch.h"
#include "agent/kill_controller.h"
#include "agent/parts.h"
#include "agent/record_reporter.h"
#include "agent/tree_refresher.h"
#include "agent/victim_cache.h"
#include "agent/wake_scheduler.h"
#include "base/clock.h"
#include "model/config.h"

namespace forestall::agent {

// What it works with; all of it outlives the controller.
struct PreparationParts {
  const Parts& agent;
  const Config& config;  // in force
  const WakeScheduler& scheduler;
  TreeRefresher& tree;
  GrowthWatch& growth;
  VictimCache& victim_cache;
  RecordReporter& reporter;
  KillController& kills;
};

// Thread rule: the loop's thread only.
class PreparationController {
 public:
  explicit PreparationController(const PreparationParts& parts) : parts_(parts) {}

  // When pre_rank(), sample_for_growth() or prepare_guard() is due.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;
  // Ranks for a turn, if that is due. True: an evaluation has to begin the next list.
  [[nodiscard]] bool pre_rank(MonotonicTime now);
  // Takes the pinned victims of a list.
  void take_pins();
  // Samples the workloads for a turn, if that is due.
  void sample_for_growth(MonotonicTime now);
  // Works for a turn on the guard's lists, if that is due.
  void prepare_guard(MonotonicTime now);
  // The same after an event, as far as a stream of events keeps the loop from it: takes the lists
  // that the thread has made, and works for a turn that is overdue.
  void catch_up_guard();
  // The tree was rechecked and evaluated: while no memory is short, a sampling begins.
  void rechecked();

 private:
  void publish_list();
  [[nodiscard]] bool is_outside_warning_zones() const;

  const PreparationParts parts_;
};

}  // namespace forestall::agent
