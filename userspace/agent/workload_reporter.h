// SPDX-License-Identifier: Apache-2.0
// Logs what a rescan of the cgroup tree found: its problems, whether the facts of pods are
// inferred, and whether any workload may be killed.
#pragma once

#include <optional>
#include <vector>

#include "agent/problem_log.h"
#include "exports/log.h"
#include "exports/sink.h"
#include "model/observation.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class WorkloadReporter {
 public:
  using Workloads = std::vector<const Workload*>;

  explicit WorkloadReporter(exports::Log& log) : log_(log), problems_(log) {}

  // After each rescan.
  void report(const Workloads& workloads, const std::vector<SourceNote>& notes);
  // Where the facts of the pods found by the last rescan come from.
  [[nodiscard]] const exports::PodFactCounts& pod_facts() const { return pod_facts_; }

 private:
  void count_pod_facts(const Workloads& workloads);
  void report_candidates(const Workloads& workloads);

  exports::Log& log_;
  ProblemLog problems_;
  exports::PodFactCounts pod_facts_;
  std::optional<bool> had_candidates_;  // nullopt: not scanned yet
};

}  // namespace forestall::agent
