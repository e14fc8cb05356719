// SPDX-License-Identifier: Apache-2.0
// Records as JSON, one a line, for `forestall agent --output json`.
#pragma once

#include "exports/log.h"
#include "exports/sink.h"

namespace forestall::api {

// A kill is written complete with its outcome, and one with a grace when it begins as well; every
// other decision at once.
class RecordStream final : public exports::RecordSink {
 public:
  // `out` outlives this; what it cannot take in time it drops and counts.
  explicit RecordStream(exports::Log& out) : out_(out) {}
  void write(const Record& record) override;
  // Whether a record is written now; false: a complete one of the same kill follows.
  [[nodiscard]] static bool takes(const Record& record);
  // Makes the text of a record and throws it away: what that takes is in memory from then on.
  static void warm_up();

 private:
  exports::Log& out_;
};

}  // namespace forestall::api
