// SPDX-License-Identifier: Apache-2.0
// Where records go. The loop knows sinks only by this interface.
#pragma once

#include "base/clock.h"
#include "model/record.h"

namespace forestall::exports {

// One look of the loop, on record or not: most of them repeat the last one.
struct Look {
  const Observation& observation;
  const Decision& decision;
  MonotonicTime next;  // when the loop looks again at the latest, whatever happens
};

// Thread rule: called from the loop's thread, after the kill of the record was begun. Must not
// block and must not fail loudly: what cannot be delivered is dropped and counted.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void write(const Record& record) = 0;
  // Before the record of the same look, if there is one.
  virtual void looked(const Look&) {}
};

}  // namespace forestall::exports
