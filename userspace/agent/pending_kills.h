// SPDX-License-Identifier: Apache-2.0
// The kills the agent has begun, each with the record it belongs to, until its outcome is known.
#pragma once

#include <optional>
#include <vector>

#include "actuators/ladder.h"
#include "agent/record_writer.h"
#include "agent/standing_dry_runs.h"
#include "exports/loop_counts.h"
#include "model/record.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class PendingKills {
 public:
  PendingKills(actuators::Ladder& ladder, RecordWriter& writer, exports::LoopCounts& counts)
      : ladder_(ladder), writer_(writer), counts_(counts) {}

  // Signals every victim of the decision. No other call lies between a crossing and its kill.
  // Returns the victims whose kill began with it.
  std::vector<CgroupId> signal(const Decision& decision);
  // Kills what was started in the cgroup of a kill that has ended. False: nothing was begun.
  [[nodiscard]] bool repeat(const WorkloadSample& victim);
  // Whether the last signal() began a dry run that stands already: it is not recorded again.
  [[nodiscard]] bool is_repetition(CgroupId victim) const;
  // An evaluation that read all of the node.
  void evaluated(const Record& record);
  // Completes a kill that was signalled already. False: a kill of the same victim is under way and
  // has its record, which covers this one.
  bool complete(const WorkloadSample& victim, const actuators::Signalled& signalled);
  // Writes the record of a kill that was signalled, and keeps it until the outcome is there. The
  // decision has exactly one eviction. `dry_run`: no process was signalled and none will be.
  void keep(Record record, bool dry_run);
  // Writes every record whose outcome is complete.
  void collect();

 private:
  [[nodiscard]] bool is_standing_dry_run(const Decision& decision, const Eviction& eviction);
  [[nodiscard]] std::optional<KillState> state_of(CgroupId cgroup) const;
  void forget(CgroupId cgroup);
  void drop_forgotten();

  actuators::Ladder& ladder_;
  RecordWriter& writer_;
  std::vector<Record> open_;
  StandingDryRuns dry_runs_;
  std::vector<CgroupId> repetitions_;  // of the last signal()
  exports::LoopCounts& counts_;
};

}  // namespace forestall::agent
