// SPDX-License-Identifier: Apache-2.0
// Where records go. The loop knows sinks only by this interface.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "model/config.h"
#include "model/policy_state.h"
#include "model/record.h"

namespace forestall::exports {

// One look of the loop, on record or not: most of them repeat the last one.
struct Look {
  const Observation& observation;
  const Decision& decision;
  MonotonicTime next;  // when the loop looks again at the latest, whatever happens
};

// One pass of the policy: what it was told, what it remembered, what it answered. Whoever has all
// passes can have each answer again.
struct Pass {
  const Config& config;
  std::uint64_t reloads = 0;  // how often the configuration was replaced since the start
  const PolicyState& before;  // what the policy remembered
  const Record& record;       // observation, decision, stages and time; no sequence, no outcome
};

// All workloads between decisions, and how long it took to read them.
struct Survey {
  MonotonicTime at;
  Duration took{0};
  const std::vector<WorkloadSample>& workloads;
};

// Thread rule: called from the loop's thread, after the kill of the record was begun. Must not
// block and must not fail loudly: what cannot be delivered is dropped and counted.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void write(const Record& record) = 0;
  // Before the record of the same look, if there is one.
  virtual void looked(const Look&) {}
  // Every pass whose answer counts, before looked(). Of one whose `record.prepared` is set the
  // policy remembers nothing.
  virtual void passed(const Pass&) {}
  // Whether it wants to know what every workload uses, decision or not. Asked after each pass; what
  // it costs is `took` below.
  [[nodiscard]] virtual bool wants_survey(MonotonicTime) { return false; }
  virtual void surveyed(const Survey&) {}
};

}  // namespace forestall::exports
