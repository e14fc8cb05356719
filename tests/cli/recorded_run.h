// SPDX-License-Identifier: Apache-2.0
// A recording of an agent that never was: observations a test makes, decided on by the policy as
// the core does, and written by the agent's own recorder.
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

// What of a node is another one after a reboot.
struct Boot {
  std::string id = "boot";
  Duration wall_offset{1'700'000'000'000'000'000};  // of the wall clock, ahead of the monotonic one
};

class RecordedRun {
 public:
  // Begins a recording; a failure fails the test. `state`: what the policy remembers at the start.
  RecordedRun(const recording::Target& target, Config config, policy::State state = {},
              Boot boot = {});
  ~RecordedRun();

  // One look: decided, told to the recorder, and on record if somebody has to go.
  Decision look(const Observation& observation);
  // A look on what was made ready: the policy remembers nothing of it.
  Decision glance(const Observation& observation);
  // Decides like look(), but records another decision in place of that.
  void misrecord(const Observation& observation, const Decision& decision);
  void survey(MonotonicTime at, const std::vector<WorkloadSample>& workloads);
  void reload(Config config);
  recording::Totals end();

  [[nodiscard]] const policy::State& state() const { return state_; }

 private:
  void tell(const Observation& observation, Decision decision, const policy::State& before,
            bool prepared);

  exports::Log log_;
  agent::Recorder recorder_;
  Config config_;
  policy::State state_;
  Boot boot_;
  std::uint64_t reloads_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace forestall::test
