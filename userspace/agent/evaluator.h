// SPDX-License-Identifier: Apache-2.0
// One evaluation's readings and decision: observe, call the policy, read what it requests, call
// it again.
//
// The policy answers `inspect` first, so workloads are read only when a threshold is met. The
// pre-ranked ones (victim_cache.h) are read first; if the list does not answer for the decision,
// all of them are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actuators/ladder.h"
#include "agent/container_pressure.h"
#include "agent/growth_watch.h"
#include "agent/hook_tracker.h"
#include "agent/reclaim_controller.h"
#include "agent/restart_tracker.h"
#include "agent/rule_sampler.h"
#include "agent/tree_refresher.h"
#include "agent/victim_cache.h"
#include "base/clock.h"
#include "exports/loop_work.h"
#include "model/config.h"
#include "model/record.h"
#include "policy/conditions.h"
#include "policy/step.h"
#include "sources/observer.h"

namespace forestall::agent {

// What it works with; all of it outlives the evaluator.
struct EvaluatorParts {
  const Clock& clock;
  sources::Observer& observer;
  actuators::Ladder& ladder;
  ReclaimController& reclaim;
  TreeRefresher& tree;
  VictimCache& victim_cache;
  GrowthWatch& growth;
  RuleReadings& rules;
  RestartTracker& restarts;
  HookTracker& hooks;
  LoopContainerPressure& pressure;
  const Config& config;  // in force
  exports::LoopWorkTally& work;
  const kernel::CgroupTree& cgroups;
};

// Thread rule: the loop's thread only.
class Evaluator {
 public:
  explicit Evaluator(const EvaluatorParts& parts) : parts_(parts) {}

  // The record's observation, decision, `prepared` and time of observing. `began` is when the
  // evaluation began: all decisions of one evaluation share a scan of the processes.
  [[nodiscard]] Record evaluate(const Wake& wake, MonotonicTime began);
  // All workloads as they are, unscored, for recordings.
  [[nodiscard]] std::optional<std::vector<WorkloadSample>> sample_workloads();
  // Keeps the workloads that `record`, the last one, read. For a moment the next decision then
  // reads all of only those that moved. Not to be called between a crossing and a kill.
  void keep_workloads(const Record& record);
  // The configuration is about to be replaced.
  void reconfigure(const Config& next);

  // What the policy remembers.
  [[nodiscard]] const policy::State& state() const { return state_; }
  // What it remembered when it decided on `record`, the last one.
  [[nodiscard]] const policy::State& state_before(const Record& record) const {
    return record.prepared ? state_ : before_;
  }

 private:
  // Kills and restarts of units.
  [[nodiscard]] std::vector<KillProgress> kills() const;
  template <class ReadMore>
  [[nodiscard]] policy::Step run_policy(Observation& observation, ReadMore read_more) const;
  // The workloads of one reading.
  struct RecentWorkloads {
    MonotonicTime at;
    std::string subject;
    std::uint64_t changes = 0;  // Observer::workload_changes()
    std::vector<WorkloadSample> workloads;
  };
  [[nodiscard]] std::optional<RecentWorkloads> take_recent_reading(std::string_view subject,
                                                                   const Observation& observation);
  void read_workloads(std::string_view subject, sources::Scoring scoring, Observation& observation);
  [[nodiscard]] bool evaluate_prepared(const Wake& wake, Record& record);
  void evaluate_everything(const Wake& wake, MonotonicTime began, Record& record);
  [[nodiscard]] policy::Step decide(MonotonicTime began, Observation& observation);
  [[nodiscard]] bool add_workloads(const Decision& decision, MonotonicTime began,
                                   Observation& observation);
  [[nodiscard]] bool add_containers(const Decision& decision, Observation& observation);
  void add_kinds(Record& record) const;
  void note_disk_shortage(const Decision& decision, MonotonicTime at);

  const EvaluatorParts parts_;
  policy::State state_;
  policy::State before_;                // what state_ was before the last step
  policy::Reports pressure_of_kill_{};  // of the last decision on the pre-ranked list
  bool complete_ = true;  // no workload came since the tree was listed, for the last decide()
  std::optional<MonotonicTime> disk_short_since_;
  std::optional<RecentWorkloads> reading_;  // the last one; without workloads until they are kept
};

}  // namespace forestall::agent
