// SPDX-License-Identifier: Apache-2.0
// Log lines for records: one per decision with the compared numbers and the runners-up, one per
// outcome with the time of each stage, one per changed node condition, and one per kernel kill. In
// the text format these are the sentences of exports/record_sentence.h.
#pragma once

#include <string>

#include "exports/log.h"
#include "exports/sink.h"

namespace forestall::exports {

class RecordLog final : public RecordSink {
 public:
  explicit RecordLog(Log& log) : log_(log) {}
  void write(const Record& record) override;

 private:
  template <typename Event>
  void write(LogLevel level, const Event& event, LogLine (*line)(const Event&),
             std::string (*sentence)(const Event&));

  Log& log_;
};

// The lines themselves, for tests and for `--output text`.
[[nodiscard]] LogLine decision_line(const Record& record);
[[nodiscard]] LogLine outcome_line(const Record& record);
// REQUIRES: the record is a kernel kill.
[[nodiscard]] LogLine oom_kill_line(const Record& record);
// In kubelet's words, as in node conditions and events.
[[nodiscard]] LogLine condition_line(const ConditionStatus& status);

}  // namespace forestall::exports
