// SPDX-License-Identifier: Apache-2.0
// Records as log lines: one line per decision with the numbers compared and the runners-up, one
// per outcome with the time of each stage, one per node condition that changed, one per kill by the
// kernel's OOM killer.
#pragma once

#include "exports/log.h"
#include "exports/sink.h"

namespace forestall::exports {

class RecordLog final : public RecordSink {
 public:
  explicit RecordLog(Log& log) : log_(log) {}
  void write(const Record& record) override;

 private:
  Log& log_;
};

// The lines themselves, for tests and for `--output text`.
[[nodiscard]] LogLine decision_line(const Record& record);
[[nodiscard]] LogLine outcome_line(const Record& record);
// REQUIRES: the record tells of a kill by the kernel.
[[nodiscard]] LogLine oom_kill_line(const Record& record);
// In kubelet's words, as node conditions and events have them.
[[nodiscard]] LogLine condition_line(const ConditionStatus& status);

}  // namespace forestall::exports
