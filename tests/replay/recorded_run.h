// SPDX-License-Identifier: Apache-2.0
// A recording without an agent: the test makes observations, the policy decides as in the core, and
// the agent's recorder writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/recorder.h"
#include "exports/log.h"
#include "model/config.h"
#include "model/observation.h"
#include "policy/step.h"

namespace forestall::test {

// What changes on a node with a reboot.
struct Boot {
  std::string id = "boot";
  // difference of the wall clock to the monotonic one
  Duration wall_offset{1'700'000'000'000'000'000};
};

class RecordedRun {
 public:
  // Starts a recording; a failure fails the test. `state`: the policy's state at the start.
  RecordedRun(const recording::Target& target, Config config, policy::State state = {},
              Boot boot = {});
  ~RecordedRun();

  // One evaluation: decides, records it, and reports a kill if there is one.
  Decision evaluate(const Observation& observation);
  // An evaluation with a pre-ranked victim, which does not change the policy's state.
  Decision sample_subjects(const Observation& observation);
  // Decides like evaluation(), but records another decision instead.
  void misrecord(const Observation& observation, const Decision& decision);
  void workload_sample(MonotonicTime at, const std::vector<WorkloadSample>& workloads);
  void reload(Config config);
  recording::WriterTotals end();

  [[nodiscard]] const policy::State& state() const { return state_; }

 private:
  void report(const Observation& observation, Decision decision, const policy::State& before,
              bool prepared);

  exports::Log log_;
  exports::DropCounts drops_;
  agent::Recorder recorder_;
  Config config_;
  policy::State state_;
  Boot boot_;
  std::uint64_t reloads_ = 0;
  std::uint64_t sequence_ = 0;
};

// A ring of two agents in `folder`, the second on a rebooted host, whose monotonic clock is
// smaller: 21 evaluations from second 100 on, 60 s of wall time without any, 21 from second 10 on.
// Each run reloads `reloaded` before its sixth evaluation, if there is one.
void record_ring_across_a_reboot(const std::string& folder,
                                 const std::optional<Config>& reloaded = std::nullopt);

}  // namespace forestall::test
