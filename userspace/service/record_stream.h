// SPDX-License-Identifier: Apache-2.0
// Records as JSON, one per line, for `forestall agent --output json`.
#pragma once

#include "exports/log.h"
#include "exports/sink.h"

namespace forestall::service {

// A kill is written with its outcome, and a kill with a grace period also when it begins; every
// other decision is written at once.
class RecordStream final : public exports::RecordSink {
 public:
  // `out` outlives this; it drops and counts lines if its reader is too slow.
  explicit RecordStream(exports::Log& out) : out_(out) {}
  void write(const Record& record) override;
  // Whether a record is written now; false: a complete record of the same kill follows.
  [[nodiscard]] static bool takes(const Record& record);
  // Serializes a record and discards the text, so that the memory for it is allocated.
  static void warm_up();

 private:
  exports::Log& out_;
};

}  // namespace forestall::service
