// SPDX-License-Identifier: Apache-2.0
// Where records go. The loop knows sinks only by this interface.
#pragma once

#include "model/record.h"

namespace forestall::exports {

// Thread rule: called from the loop's thread, after the kill of the record was begun. Must not
// block and must not fail loudly: what cannot be delivered is dropped and counted.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void write(const Record& record) = 0;
};

}  // namespace forestall::exports
