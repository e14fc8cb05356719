// SPDX-License-Identifier: Apache-2.0
// The interface through which the loop exports records.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "model/config.h"
#include "model/policy_state.h"
#include "model/record.h"

namespace forestall::exports {

// One evaluation of the loop, recorded or not; most repeat the previous one.
struct Look {
  const Observation& observation;
  const Decision& decision;
  MonotonicTime next;  // latest time of the next evaluation
};

// One step of the policy: its input, its state and its output. A sink that stores all passes can
// reproduce each decision.
struct Pass {
  const Config& config;
  std::uint64_t reloads = 0;  // number of configuration reloads since the start
  const PolicyState& before;  // the policy's state before the step
  const Record& record;       // observation, decision, stages and time; no sequence, no outcome
};

// All workloads between decisions, and how long reading them took.
struct Survey {
  MonotonicTime at;
  Duration took{0};
  const std::vector<WorkloadSample>& workloads;
};

// Thread rule: called from the loop's thread, after the kill of the record was started. Must not
// block. Errors are not reported: what cannot be delivered is dropped and counted.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void write(const Record& record) = 0;
  // Called before the record of the same evaluation, if there is one.
  virtual void looked(const Look&) {}
  // Called for every pass that counts, before looked(). If `record.prepared` is set, the policy
  // keeps no state of the pass.
  virtual void passed(const Pass&) {}
  // Whether the sink needs the usage of all workloads even without a decision. Called after each
  // pass; `took` is the cost.
  [[nodiscard]] virtual bool wants_survey(MonotonicTime) { return false; }
  virtual void surveyed(const Survey&) {}
};

}  // namespace forestall::exports
